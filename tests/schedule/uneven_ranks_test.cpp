// Where ranks have different gradients, or no batch.
#include <gmock/gmock.h>

#include <algorithm>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using ::testing::ElementsAre;

TEST(Schedule, AUnitThatOnlyPeersHaveGradientsOfIsReducedToo) {
  Player player({.units = 2});
  player.forward({0});
  player.backward(0);
  player.gradients(0, 2, 2);
  const UnitCount first = {.reductions = 1, .lag = 0, .gradients = 2};
  EXPECT_THAT(player.schedule.counts(), ElementsAre(first, UnitCount{}));
  Actions actions = player.schedule.reduce_next({first, {.reductions = 1, .lag = 0, .gradients = 1}});
  EXPECT_EQ(std::count_if(actions.begin(), actions.end(),
                          [](const Action& action) { return action.kind == Kind::Reduce && action.unit == 1; }),
            1);
}

// A peer has both gradients of the last block and waits for this rank's part before it takes another gradient buffer.
TEST(Schedule, AUnitThatLacksAGradientHereIsReducedOnceTheBackwardHasPassedIt) {
  constexpr int kBlocks = 5, kLast = kBlocks - 1;
  for (bool recorded : {false, true}) {
    Player player({.units = kBlocks});
    if (recorded) block_step(player, kBlocks);
    player.actions.clear();
    for (UnitId block = 0; block < kBlocks; ++block) player.forward({block});
    for (UnitId block = kLast; block >= 0; --block) {
      player.backward(block);
      EXPECT_EQ(player.count(Kind::Reduce, kLast), block < kLast) << recorded << " block " << block;
      player.gradients(block, block == kLast ? 1 : 2, 2);
    }
    player.end_backward();
    for (UnitId block = 0; block < kBlocks; ++block) EXPECT_EQ(player.count(Kind::Reduce, block), 1);
    EXPECT_LE(player.schedule.gradient_buffers(), 3);  // one more for the unit that stayed open
  }
}

// All of its gradients are missing here, and come on a peer.
TEST(Schedule, AUnitWithoutAGradientHereIsReducedOnceTheBackwardHasPassedIt) {
  constexpr int kBlocks = 5;
  Player player({.units = kBlocks});
  block_step(player, kBlocks);
  player.actions.clear();
  for (UnitId block = 0; block < kBlocks; ++block) player.forward({block});
  for (UnitId block = kBlocks - 1; block >= 0; --block) {
    player.backward(block);
    EXPECT_EQ(player.count(Kind::Reduce, kBlocks - 1), block < kBlocks - 1);
    if (block != kBlocks - 1) player.gradients(block, 2, 2);
  }
  const UnitCount last = player.schedule.counts()[kBlocks - 1];
  EXPECT_EQ(last.reductions, 1);  // so that a peer that left the unit out joins
  EXPECT_EQ(last.lag, -1);
}

TEST(Schedule, OnlyReductionsThatAreUnderWayOnEveryRankAreWaitedFor) {
  // Unit 2 is in no backward operator (an embedding): its gradients come, and on a peer they may not.
  Player player({.units = 4, .gradient_buffers = 2});
  for (int step = 0; step < 2; ++step) {
    player.forward({2, 0, 1, 3});
    player.backward(3);
    player.gradients(2, 2, 2);
    for (UnitId block : {3, 1, 0}) {
      player.backward(block);
      player.gradients(block, 2, 2);
    }
    EXPECT_EQ(player.count(Kind::WaitReduce, 2), 0);
    player.end_backward();
    EXPECT_EQ(player.count(Kind::WaitReduce, 2), 1);
    player.actions.clear();
  }
}

// A peer does not begin block 4's reduction before this rank goes on.
TEST(Schedule, AReductionThatStallsKeepsItsMemoryUntilTheEndOfBackward) {
  constexpr int kBlocks = 5;
  Player player({.units = kBlocks});
  for (UnitId block = 0; block < kBlocks; ++block) player.forward({block});
  for (UnitId block = kBlocks - 1; block >= 2; --block) {
    player.backward(block);
    player.gradients(block, 2, 2);
  }
  const auto buffer_of = [&](Kind kind, UnitId unit) {
    const auto found = std::find_if(player.actions.rbegin(), player.actions.rend(),
                                    [&](const Action& action) { return action.kind == kind && action.unit == unit; });
    return found == player.actions.rend() ? -1 : found->buffer;
  };
  ASSERT_EQ(player.count(Kind::WaitBuffer, 4), 1);
  EXPECT_EQ(buffer_of(Kind::WaitBuffer, 4), buffer_of(Kind::OpenGradient, 2));
  EXPECT_EQ(player.schedule.reduction_stalls(4, /*of_peer=*/true), 2);
  EXPECT_EQ(player.schedule.gradient_buffers(), 3);

  player.backward(1);
  player.gradients(1, 2, 2);
  EXPECT_EQ(player.count(Kind::WaitBuffer, 3), 1);  // and not block 4 again
  player.backward(0);
  player.gradients(0, 2, 2);
  player.end_backward();
  EXPECT_EQ(player.count(Kind::WaitReduce, 4), 1);
  EXPECT_EQ(buffer_of(Kind::WaitReduce, 4), 2);

  // From then on there is a buffer for it, and others are waited for first.
  player.actions.clear();
  block_step(player, kBlocks);
  EXPECT_EQ(player.schedule.gradient_buffers(), 3);
  EXPECT_EQ(player.count(Kind::WaitBuffer, 4), 0);
  EXPECT_EQ(player.count(Kind::WaitReduce, 4), 1);
}

// The buffers that it grew by are given up after some backwards without such a peer.
TEST(Schedule, BuffersOfReductionsThatStalledAreGivenUpInTheEnd) {
  constexpr int kBlocks = 5;
  for (bool of_peer : {false, true}) {
    Player player({.units = kBlocks});
    block_step(player, kBlocks);
    for (UnitId block = 0; block < kBlocks; ++block) player.forward({block});
    for (UnitId block = kBlocks - 1; block >= 0; --block) {
      player.backward(block);
      player.gradients(block, 2, 2);
      if (block == 2) EXPECT_EQ(player.schedule.reduction_stalls(4, of_peer), 2);
    }
    player.end_backward();
    EXPECT_EQ(player.schedule.gradient_buffers(), of_peer ? 3 : 2);
    for (int step = 0; step < 8; ++step) block_step(player, kBlocks);
    EXPECT_EQ(player.schedule.gradient_buffers(), 2);
  }
}

// Where gathers need all ranks.
TEST(Schedule, RanksThatDifferGatherOnDemandAndReduceWithoutAWait) {
  constexpr int kBlocks = 5;
  Player player({.units = kBlocks});
  for (int step = 0; step < 3; ++step) block_step(player, kBlocks);
  player.actions.clear();
  player.schedule.ranks_differ();
  EXPECT_FALSE(player.schedule.ranks_are_alike());
  block_step(player, kBlocks);
  for (const Action& action : player.actions) {
    EXPECT_FALSE(action.foreseen) << to_string(action);
    EXPECT_NE(action.kind, Kind::WaitBuffer) << to_string(action);
  }
  player.schedule.all_ended_backward();
  EXPECT_EQ(player.schedule.gradient_buffers(), kBlocks);
  // After some backwards in which they were alike, plans are made and followed again, and buffers given up.
  int steps = 0;
  for (; !player.schedule.ranks_are_alike(); ++steps) {
    block_step(player, kBlocks);
    player.schedule.all_ended_backward();
  }
  EXPECT_GT(steps, 1);
  for (int step = 0; step < 2; ++step) block_step(player, kBlocks);
  EXPECT_EQ(player.schedule.gradient_buffers(), 2);
  EXPECT_TRUE(player.schedule.training().planned());
  // The more often they differ, the longer it takes.
  player.schedule.ranks_differ();
  int again = 0;
  for (; !player.schedule.ranks_are_alike(); ++again) player.schedule.all_ended_backward();
  EXPECT_GT(again, steps);
}

// Kept aside, while the unit's reduction waits for a peer: reduced after all others.
TEST(Schedule, AGradientThatIsKeptAsideIsCountedAndReducedAtTheEnd) {
  Player player({.units = 2});
  block_step(player, 2);
  player.actions.clear();
  player.forward({0, 1});
  player.backward(1);
  player.gradients(1, 2, 2);
  EXPECT_TRUE(player.schedule.reduction_under_way(1));
  player.schedule.gradient_kept(1);
  player.backward(0);
  player.gradients(0, 2, 2);
  EXPECT_EQ(player.count(Kind::Reduce, 1), 1);
  EXPECT_THAT(player.schedule.counts(), ElementsAre(UnitCount{.reductions = 1, .lag = 0, .gradients = 2},
                                                    UnitCount{.reductions = 2, .lag = 0, .gradients = 3}));
  player.end_backward();
  EXPECT_EQ(player.count(Kind::Reduce, 1), 2);
  player.actions.clear();
  player.forward({0, 1});
  player.backward(1);
  player.gradients(1, 3, 2);  // which is foreseen now
  player.end_backward();
  EXPECT_EQ(player.count(Kind::Reduce, 1), 1);
}

TEST(Schedule, AStepThatSomeRankFollowsIsGatheredOnDemand) {
  Player player({.units = 4});
  block_step(player, 4);
  block_step(player, 4);
  const auto plan = player.schedule.training().plan();
  player.actions.clear();
  player.schedule.set_followed(true);
  block_step(player, 4);
  for (const Action& action : player.actions) EXPECT_FALSE(action.foreseen) << to_string(action);
  player.schedule.set_followed(false);
  EXPECT_EQ(player.schedule.training().plan(), plan);
  player.take();
  player.forward({0});
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1", "WaitGather 0"));
}

TEST(Schedule, AFollowerReducesInTheOrderOfItsLastBackward) {
  Player player({.units = 4});
  block_step(player, 4);
  player.actions.clear();
  for (int step = 0; step < 2; ++step) {
    player.add(player.schedule.follow());
    player.add(player.schedule.repeat_reductions());
    EXPECT_EQ(player.schedule.counts(), UnitCounts(4, {.reductions = 1}));
    player.end_backward();
    EXPECT_THAT(player.take(), ElementsAre("Reduce 3", "Reduce 2", "WaitBuffer 3", "Reduce 1", "WaitBuffer 2",
                                           "Reduce 0", "WaitReduce 0", "WaitReduce 1"));
  }
  EXPECT_EQ(player.schedule.gradient_buffers(), 2);
  // Its expectations of its own backwards are unchanged.
  Player unaware({.units = 4});
  for (int step = 0; step < 2; ++step) block_step(unaware, 4);
  unaware.actions.clear();
  block_step(unaware, 4);
  block_step(player, 4);
  EXPECT_EQ(player.take(), unaware.take());
}

}  // namespace
}  // namespace fsdp::schedule
