// Plans that the schedule learns from earlier steps, and passes that do not change them.
#include <gmock/gmock.h>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using ::testing::ElementsAre;

TEST(Schedule, ATouchThatThePlanDidNotForeseeIsServedAndPlannedFromThenOn) {
  Player player({.units = 4});
  auto step = [&](std::vector<UnitId> order) {
    player.forward(order);
    for (auto unit = order.rbegin(); unit != order.rend(); ++unit) player.backward(*unit);
    player.end_backward();
  };
  step({0, 1, 2});
  player.take();
  step({0, 3, 1, 2});  // 3 is new
  EXPECT_FALSE(player.take().empty());
  EXPECT_THAT(player.schedule.training().plan(), ElementsAre(0, 3, 1, 2, 1, 3, 0));
  player.forward({0});
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 3", "WaitGather 0"));
}

TEST(Schedule, ASkippedUnitDoesNotLoseThePlace) {
  Player player({.units = 5});
  block_step(player, 5);
  player.take();
  player.forward({0});
  player.forward({2});  // 1 was gathered ahead, and is skipped
  player.take();
  player.forward({3});
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 1", "Gather 3", "Gather 4", "WaitGather 3"));
}

TEST(Schedule, EvaluationHasAPlanOfItsOwn) {
  Player player({.units = 4});
  block_step(player, 4);
  player.evaluate({0, 1, 2, 3, 0, 1, 2, 3});  // the period shows by its repetition
  EXPECT_THAT(player.schedule.evaluation().plan(), ElementsAre(0, 1, 2, 3));
  player.take();
  block_step(player, 4);
  EXPECT_EQ(player.count(Kind::Gather), 3 + 2);  // the evaluation left block 1, which it would have needed next
  player.take();
  player.evaluate({0});
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1", "WaitGather 0"));
  player.evaluate({1, 2, 3, 0, 1, 2, 3});
  EXPECT_EQ(player.count(Kind::Gather), 2 + 4);
}

TEST(Schedule, AnEvaluationBetweenStepsLeavesTheTrainingPlanAlone) {
  Player player({.units = 4});
  block_step(player, 4);
  auto plan = player.schedule.training().plan();
  for (int round = 0; round < 2; ++round) {
    player.evaluate({0, 1, 2, 3});
    block_step(player, 4);
  }
  EXPECT_EQ(player.schedule.training().plan(), plan);
  EXPECT_THAT(player.schedule.evaluation().plan(), ElementsAre(0, 1, 2, 3));
}

// A process that only infers has no event at the end of a pass.
TEST(Schedule, ADeviatingPassDoesNotLoseAPlanForEver) {
  Player player({.units = 5});
  for (int pass = 0; pass < 20000; ++pass) player.evaluate({0, 1, 2, 3});
  EXPECT_THAT(player.schedule.evaluation().plan(), ElementsAre(0, 1, 2, 3));
  player.evaluate({0, 4, 2, 3});
  for (int pass = 0; pass < 3; ++pass) player.evaluate({0, 1, 2, 3});
  EXPECT_TRUE(player.schedule.evaluation().on_plan());
  EXPECT_THAT(player.schedule.evaluation().plan(), ElementsAre(0, 1, 2, 3));
  player.take();
  player.evaluate({0});
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1", "WaitGather 0"));
}

TEST(Schedule, AForwardWithoutBackwardDoesNotChangeThePlan) {
  Player player({.units = 3});
  block_step(player, 3);
  auto plan = player.schedule.training().plan();
  player.forward({0, 1});
  player.schedule.shards_change();
  EXPECT_EQ(player.schedule.training().plan(), plan);
}

}  // namespace
}  // namespace fsdp::schedule
