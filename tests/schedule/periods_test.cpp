// Steps whose periods differ: each is expected to be what came last time after the one before it.
#include <gmock/gmock.h>

#include <string>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kChain = 4;  // units, one after the other

void forward(Player& player) {
  for (UnitId unit = 0; unit < kChain; ++unit) player.forward({unit});
}

void backward(Player& player) {
  for (UnitId unit = kChain - 1; unit >= 0; --unit) {
    player.backward(unit);
    player.gradients(unit, 2, 2);
  }
  player.end_backward();
}

// F: a forward, B: a backward; then a step.
void run_events(Player& player, const std::string& events) {
  for (char event : events) event == 'F' ? forward(player) : backward(player);
  player.step(kChain);
}

int unforeseen(const Player& player) {
  int count = 0;
  for (const Action& action : player.actions) count += action.kind == Kind::Gather && !action.foreseen;
  return count;
}

TEST(Periods, OfSeveralMicroBatchesInFlightAreForeseenAfterTheFirstStep) {
  for (const char* events : {"FB", "FBFB", "FFB", "FBB", "FFFFBBBB", "FFBFBFBB", "FFFBFBBB", "FFBFB"}) {
    Player player({.units = kChain});
    run_events(player, events);
    player.actions.clear();
    for (int step = 1; step < 4; ++step) run_events(player, events);
    EXPECT_EQ(unforeseen(player), 0) << events;
    EXPECT_EQ(player.schedule.buffers(), 2) << events;
  }
}

// A pipeline that has filled goes on as it did, however many micro-batches there are.
TEST(Periods, AreForeseenInALongerStepToo) {
  Player player({.units = kChain});
  run_events(player, "FFBFBFBB");
  player.actions.clear();
  run_events(player, "FFBFBFBFBFBB");
  EXPECT_EQ(unforeseen(player), 0);
}

TEST(Periods, ThatTurnOutToBeAnotherAreFollowedFromThereOn) {
  Player player({.units = kChain});
  run_events(player, "FFB");
  run_events(player, "FB");
  player.actions.clear();
  run_events(player, "FFB");         // the last step had one forward
  EXPECT_EQ(unforeseen(player), 2);  // where the second begins: its unit, and the next
  player.actions.clear();
  run_events(player, "FFB");
  EXPECT_EQ(unforeseen(player), 0);
}

TEST(Periods, AreForgottenWhereTooManyDiffer) {
  Player player({.units = 12});
  for (UnitId last = 11; last >= 0; --last) {
    for (UnitId unit : {UnitId{0}, last}) player.forward({unit});
    player.backward(last);
    player.end_backward();
  }
  player.actions.clear();
  player.forward({0, 11});
  EXPECT_EQ(unforeseen(player), 1);
}

TEST(Periods, ThatSomeRankDoesNotSeeTeachNothing) {
  Player player({.units = kChain});
  run_events(player, "FB");
  player.schedule.set_followed(true);
  run_events(player, "FFB");
  player.schedule.set_followed(false);
  Player peer({.units = kChain});
  run_events(peer, "FB");
  EXPECT_EQ(player.schedule.learnt(), peer.schedule.learnt());
}

TEST(Periods, AreLearntAnewOnceTheyAreForgotten) {
  Player player({.units = kChain});
  run_events(player, "FBB");
  player.schedule.forget_plans();
  EXPECT_EQ(player.schedule.learnt(), Player({.units = kChain}).schedule.learnt());
  for (int step = 0; step < 2; ++step) {
    player.actions.clear();
    run_events(player, "FBB");
  }
  EXPECT_EQ(unforeseen(player), 0);
}

// Blocks of which the first is checkpointed: its forward runs without gradients, and again inside the backward.
void checkpointed_step(Player& player) {
  player.evaluate({0});
  for (UnitId unit = 1; unit < kChain; ++unit) player.forward({unit});
  backward(player);
  player.step(kChain);
}

TEST(ACheckpointedFirstBlock, BelongsToTheTrainingPlan) {
  for (bool evaluates : {false, true}) {
    Player player({.units = kChain});
    if (evaluates) player.evaluate({0, 1, 2, 3, 0, 1, 2, 3});
    checkpointed_step(player);
    EXPECT_THAT(player.schedule.training().plan(), ElementsAre(0, 1, 2, 3, 2, 1, 0)) << evaluates;
    for (int step = 0; step < 2; ++step) {
      player.actions.clear();
      checkpointed_step(player);
      EXPECT_EQ(unforeseen(player), 0);
      EXPECT_EQ(player.count(Kind::Gather), kChain + kChain - 2);
    }
    if (!evaluates) EXPECT_THAT(player.schedule.evaluation().plan(), IsEmpty());
  }
}

TEST(ACheckpointedFirstBlock, IsRecordedWithItsMicroBatch) {
  Player player({.units = kChain});
  for (int step = 0; step < 2; ++step) checkpointed_step(player);
  const Step& step = player.schedule.record().step();
  ASSERT_EQ(step.micro_batches.size(), 1u);
  EXPECT_EQ(step.micro_batches[0].events.front().action.unit, 0);
}

TEST(ACheckpointedFirstBlock, LeavesEvaluationsTheirPlan) {
  Player player({.units = kChain});
  for (int round = 0; round < 3; ++round) {
    checkpointed_step(player);
    player.evaluate({0, 1, 2, 3, 0, 1, 2, 3});
    EXPECT_THAT(player.schedule.evaluation().plan(), ElementsAre(0, 1, 2, 3));
    player.actions.clear();
    player.evaluate({0, 1, 2, 3});
    EXPECT_EQ(unforeseen(player), 0);
    player.step(kChain);
  }
  EXPECT_THAT(player.schedule.training().plan(), ElementsAre(0, 1, 2, 3, 2, 1, 0));
}

TEST(ACheckpointedFirstBlock, MayBeFollowedByOthers) {
  Player player({.units = kChain});
  for (int step = 0; step < 3; ++step) {
    player.actions.clear();
    player.evaluate({0, 1, 2, 3});  // all are checkpointed
    backward(player);
    player.step(kChain);
  }
  EXPECT_EQ(unforeseen(player), 0);
  EXPECT_EQ(player.count(Kind::Gather), kChain + kChain - 2);
}

}  // namespace
}  // namespace fsdp::schedule
