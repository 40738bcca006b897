// Micro-batches with names: several in flight, each with the uses of its own forward.
#include "schedule/open_micro_batches.h"

#include <gmock/gmock.h>

#include "fsdp/error.h"
#include "schedule/script.h"

namespace fsdp::schedule {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A pipeline's stage: events of micro-batches by their numbers.
struct Stage : ScriptedRank {
  Stage() : ScriptedRank(facts_in_shared_memory(3)) {}
  void forward_of(int64_t number) {
    driver.begin_micro_batch(number);
    forward();
    driver.end_micro_batch(std::nullopt);
  }
  void backward_of(int64_t number) {
    driver.begin_micro_batch(number);
    backward();
    driver.end_micro_batch(std::nullopt);
  }
  bool has_place(int64_t number, UnitId unit) {
    driver.begin_micro_batch(number);
    use(unit, Mode::Backward);
    const bool has = driver.opens_gradient_in_place(unit);
    driver.end_micro_batch(std::nullopt);
    return has;
  }
};

TEST(OpenMicroBatches, HaveTheUsesOfTheirOwnForwards) {
  OpenMicroBatches batches(2);
  batches.name(7);
  EXPECT_TRUE(batches.forward_begins(0));
  EXPECT_FALSE(batches.forward_begins(0));
  batches.use(1, 0);
  EXPECT_EQ(batches.name(8), 7);
  batches.use(1, 0);
  batches.use(1, 0);
  batches.name(7);
  EXPECT_THAT(batches.present().forward_uses, ElementsAre(0, 1));
  batches.name(8);
  EXPECT_THAT(batches.present().forward_uses, ElementsAre(0, 2));
}

TEST(OpenMicroBatches, ANumberThatIsUsedAgainAfterItsBackwardIsAnother) {
  OpenMicroBatches batches(1);
  batches.name(0);
  batches.forward_begins(0);
  batches.use(0, 0);
  batches.backward_begins();
  EXPECT_THAT(batches.present().forward_uses, ElementsAre(1));
  batches.backward_ends();
  EXPECT_THAT(batches.present().forward_uses, ElementsAre(0)) << "another backward of it has no forward before";
  EXPECT_TRUE(batches.forward_begins(0));
  EXPECT_THAT(batches.present().forward_uses, ElementsAre(0));
}

TEST(OpenMicroBatches, AreOutdatedWhereTheShardsHaveChangedSinceTheirForward) {
  OpenMicroBatches batches(1);
  batches.name(0);
  batches.forward_begins(3);
  EXPECT_FALSE(batches.is_outdated(3));
  batches.shards_written();
  EXPECT_TRUE(batches.is_outdated(4)) << "it is open still";
  EXPECT_TRUE(batches.forward_begins(4));
  EXPECT_FALSE(batches.is_outdated(4));
}

TEST(StepDriver, GradientsHaveTheirPlacesWhereTheForwardOfANamedMicroBatchLiesPeriodsBefore) {
  Stage stage;
  stage.forward_of(0);
  stage.forward_of(1);
  stage.backward_of(0);
  EXPECT_TRUE(stage.has_place(1, 2)) << "its forward lies before the backward of another";
  ScriptedRank unnamed(facts_in_shared_memory(3));
  unnamed.forward();
  unnamed.forward();
  unnamed.backward();
  unnamed.use(2, Mode::Backward);
  EXPECT_FALSE(unnamed.driver.opens_gradient_in_place(2)) << "which forward it had is not known";
}

// As in a pipeline that computes the gradients of weights later than those of inputs.
TEST(StepDriver, GradientsThatComeInABackwardOfTheirOwnHaveTheirPlacesAndOneReductionEach) {
  Stage stage;
  for (int step = 0; step < 3; ++step) {
    for (int64_t number : {0, 1}) stage.forward_of(number);
    stage.script.take();
    for (int64_t number : {0, 1}) {
      stage.driver.begin_micro_batch(number);
      for (UnitId unit : {2, 1, 0}) stage.use(unit, Mode::Backward);
      stage.driver.backward_ends();
      stage.driver.end_micro_batch(std::nullopt);
    }
    EXPECT_THAT(only(stage.script.take(), {"open", "reduce"}), IsEmpty()) << step;
    for (int64_t number : {0, 1}) {
      stage.driver.begin_micro_batch(number);
      for (UnitId unit : {2, 1, 0}) {
        stage.driver.note_backward(/*inside=*/true, /*abandoned=*/false);
        EXPECT_TRUE(stage.driver.opens_gradient_in_place(unit)) << step;
        for (int parameter : {0, 1}) EXPECT_TRUE(stage.gradient(unit)) << parameter;
      }
      stage.driver.backward_ends();
      stage.driver.end_micro_batch(std::nullopt);
      const Lines lines = stage.script.take();
      EXPECT_THAT(only(lines, {"reduce "}), ElementsAre("reduce c", "reduce b", "reduce a")) << step;
      EXPECT_THAT(only(lines, {"gather"}), IsEmpty()) << "gradients alone need no full unit";
    }
    stage.step();
  }
}

TEST(StepDriver, EveryNamedMicroBatchBeginsAForward) {
  Stage stage;
  stage.forward_of(0);
  EXPECT_THAT(stage.script.take(), Contains("forward begins").Times(1));
  stage.forward_of(1);
  EXPECT_THAT(stage.script.take(), Contains("forward begins").Times(1));
  stage.backward_of(0);
  stage.backward_of(1);
  EXPECT_THAT(stage.script.take(), Not(Contains("forward begins")));
}

TEST(StepDriver, RefusesTheBackwardOfANamedMicroBatchWhoseForwardLiesBeforeAStep) {
  Stage stage;
  stage.forward_of(0);
  stage.forward_of(1);
  stage.backward_of(0);
  stage.step();
  stage.forward_of(2);
  try {
    stage.backward_of(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("[fsdp unit=c]"));
  }
  stage.driver.end_micro_batch(std::nullopt);
  stage.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  stage.backward_of(2);
}

TEST(StepDriver, AReadOfTheStateBetweenANamedForwardAndItsBackwardChangesNothing) {
  Stage stage;
  stage.forward_of(0);
  stage.driver.release_all();
  EXPECT_TRUE(stage.has_place(0, 2));
}

TEST(StepDriver, ANumberThatIsUsedAgainBeginsAnewWithACheckpointedBlockToo) {
  Stage stage;
  for (int times = 0; times < 3; ++times) {
    stage.driver.begin_micro_batch(0);
    stage.use(0, Mode::ForwardWithoutGradients);
    stage.use(1, Mode::Forward);
    stage.use(2, Mode::ForwardWithoutGradients);
    stage.driver.end_micro_batch(std::nullopt);
    stage.driver.begin_micro_batch(0);
    for (UnitId unit : {2, 1, 0}) {
      stage.use(unit, Mode::Backward);
      EXPECT_TRUE(stage.driver.opens_gradient_in_place(unit)) << times;
      stage.gradient(unit);
      stage.gradient(unit);
    }
    stage.driver.backward_ends();
    stage.driver.end_micro_batch(std::nullopt);
  }
}

TEST(StepDriver, TheNumberOfABackwardThatThrewMayBeUsedAgain) {
  Stage stage;
  stage.forward_of(0);
  stage.driver.begin_micro_batch(0);
  stage.ScriptedRank::backward(2);
  stage.driver.end_micro_batch(std::nullopt);
  stage.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  stage.script.take();
  stage.forward_of(0);
  EXPECT_THAT(stage.script.take(), Contains("forward begins"));
  EXPECT_TRUE(stage.has_place(0, 2));
}

TEST(StepDriver, RefusesAScopeOfAMicroBatchInsideABackward) {
  Stage stage;
  stage.forward_of(0);
  stage.use(2, Mode::Backward);
  EXPECT_THROW(stage.driver.begin_micro_batch(1), Error);
}

TEST(StepDriver, ACheckpointedBlockOfANamedMicroBatchIsItsForward) {
  Stage stage;
  stage.driver.begin_micro_batch(0);
  stage.use(0, Mode::ForwardWithoutGradients);
  stage.use(1, Mode::Forward);
  stage.use(2, Mode::Forward);
  stage.driver.end_micro_batch(std::nullopt);
  EXPECT_TRUE(stage.has_place(0, 0));
}

}  // namespace
}  // namespace fsdp::schedule
