#include "schedule/schedule.h"

#include <algorithm>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using testing::ElementsAre;

// A model of blocks 1..L and a unit 0 at both ends: embedding first, tied head last.
void tied_step(Player& player, int blocks) {
  player.forward({0});
  for (UnitId block = 1; block <= blocks; ++block) player.forward({block, block});
  player.forward({0});
  player.backward(0);
  player.gradients(0, 1, 2);  // the final norm's; the embedding's comes at the very end
  for (UnitId block = blocks; block >= 1; --block) {
    player.backward(block);
    player.gradients(block, 3, 3);
  }
  player.gradients(0, 1, 2);
  player.end_backward();
}

// Blocks 0..L-1 and nothing else.
void block_step(Player& player, int blocks) {
  for (UnitId block = 0; block < blocks; ++block) player.forward({block});
  for (UnitId block = blocks - 1; block >= 0; --block) {
    player.backward(block);
    player.gradients(block, 2, 2);
  }
  player.end_backward();
}

TEST(Schedule, GathersEachBlockOnceAPassButThoseThatAreStillThere) {
  for (int blocks : {2, 3, 6, 48}) {
    Player player({.units = blocks});
    for (int step = 0; step < 3; ++step) {
      block_step(player, blocks);
      // Two buffers hold the last two blocks when the backward begins.
      EXPECT_EQ(player.count(Kind::Gather), blocks + blocks - 2) << "step " << step << " of " << blocks << " blocks";
      EXPECT_EQ(player.count(Kind::Reduce), blocks);
      player.actions.clear();
    }
    EXPECT_EQ(player.schedule.buffers(), 2);
    EXPECT_EQ(player.schedule.gradient_buffers(), 2);
  }
}

TEST(Schedule, GathersATiedEmbeddingForEachEndOfTheForwardAndKeepsTheLastBlock) {
  for (int blocks : {2, 6, 12}) {
    Player player({.units = blocks + 1});
    for (int step = 0; step < 3; ++step) {
      tied_step(player, blocks);
      EXPECT_EQ(player.count(Kind::Gather) - player.count(Kind::Gather, 0), blocks + blocks - 1) << "step " << step;
      EXPECT_EQ(player.count(Kind::Gather, 0), 2) << "step " << step;
      for (UnitId unit = 0; unit <= blocks; ++unit) EXPECT_EQ(player.count(Kind::Reduce, unit), 1);
      player.actions.clear();
    }
    EXPECT_EQ(player.schedule.buffers(), 2);
    EXPECT_EQ(player.schedule.gradient_buffers(), 3);  // the embedding's stays open all along
  }
}

TEST(Schedule, MoreBuffersSaveGathersUntilEveryUnitIsGatheredOnce) {
  int blocks = 6, before = 1000;
  for (int buffers : {2, 3, 4, 7}) {
    Player player({.units = blocks + 1, .buffers = buffers});
    tied_step(player, blocks);
    player.actions.clear();
    tied_step(player, blocks);
    int gathers = player.count(Kind::Gather);
    EXPECT_LT(gathers, before);
    before = gathers;
  }
  EXPECT_EQ(before, blocks + 1);
}

TEST(Schedule, GathersAheadOnceItHasAPlan) {
  Player player({.units = 3});
  block_step(player, 3);
  player.take();
  player.forward({0});
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1", "WaitGather 0"));
  player.forward({1});
  EXPECT_THAT(player.take(), ElementsAre("Gather 2", "WaitGather 1"));
  player.forward({2});
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 2"));
  player.backward(2);
  player.gradients(2, 2, 2);
  EXPECT_THAT(player.take(), ElementsAre("Reduce 2"));
  player.backward(1);
  EXPECT_THAT(player.take(), ElementsAre("Gather 0"));
  player.gradients(1, 2, 2);
  player.backward(0);
  EXPECT_THAT(player.take(), ElementsAre("Reduce 1", "WaitGather 0"));
  player.gradients(0, 2, 2);
  player.end_backward();
  EXPECT_THAT(player.take(), ElementsAre("WaitBuffer 2", "Reduce 0", "WaitReduce 0", "WaitReduce 1"));
}

TEST(Schedule, NothingIsFullAfterABackward) {
  Player player({.units = 7});
  tied_step(player, 6);
  for (UnitId unit = 0; unit < 7; ++unit) EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
}

TEST(Schedule, AModuleCalledTwiceIsReducedOnceWithBothGradients) {
  Player player({.units = 3});
  for (int step = 0; step < 3; ++step) {
    player.forward({0, 1, 0, 2});  // unit 0 twice, each under a checkpoint of its own: gradients in two rounds
    player.backward(2);
    player.gradients(2, 2, 2);
    player.backward(0);
    player.gradients(0, 2, 2);
    player.backward(1);
    player.gradients(1, 2, 2);
    player.backward(0);
    player.gradients(0, 2, 2);
    player.end_backward();
    for (UnitId unit = 0; unit < 3; ++unit) EXPECT_EQ(player.count(Kind::Reduce, unit), 1) << "step " << step;
    player.actions.clear();
  }
}

TEST(Schedule, AFrozenUnitIsGatheredAndNeverReduced) {
  Player player({.units = 3});
  for (int step = 0; step < 2; ++step) {
    player.forward({0, 1, 2});
    player.backward(2);
    player.gradients(2, 2, 2);
    player.backward(1);  // frozen: the gradient passes through
    player.backward(0);
    player.gradients(0, 2, 2);
    player.end_backward();
    EXPECT_EQ(player.count(Kind::Gather, 1), 1);
    EXPECT_EQ(player.count(Kind::Reduce, 1), 0);
    player.actions.clear();
  }
}

TEST(Schedule, AFrozenParameterDoesNotDelayTheUnitsReduction) {
  Player player({.units = 2});
  auto step = [&] {
    player.forward({0, 1});
    player.backward(1);
    player.gradients(1, 2, 2);
    player.backward(0);
    player.gradients(0, 1, 1);
  };
  step();
  EXPECT_EQ(player.count(Kind::Reduce, 0), 1);
  player.end_backward();
  player.actions.clear();
  step();
  EXPECT_EQ(player.count(Kind::Reduce, 0), 1);
}

// It may be used in any backward, so that the unit is not complete before the backward has passed it.
TEST(Schedule, AUnitWithAnUnusedParameterIsReducedOnceTheBackwardHasPassedIt) {
  Player player({.units = 2});
  for (int count : {1, 1, 2}) {  // of the second unit's two parameters
    player.forward({0, 1});
    player.backward(1);
    player.gradients(1, count, 2);
    EXPECT_EQ(player.count(Kind::Reduce, 1), count == 2);
    player.backward(0);
    EXPECT_EQ(player.count(Kind::Reduce, 1), 1);
    player.gradients(0, 2, 2);
    player.end_backward();
    EXPECT_EQ(player.count(Kind::Reduce, 1), 1);
    player.actions.clear();
  }
}

TEST(Schedule, AGradientThatComesAfterTheReductionIsReducedOnItsOwn) {
  Player player({.units = 1});
  block_step(player, 1);
  player.actions.clear();
  player.forward({0});
  player.backward(0);
  player.gradients(0, 3, 2);  // two were expected
  EXPECT_EQ(player.count(Kind::Reduce), 1);
  EXPECT_TRUE(player.schedule.reduced(0));
  player.end_backward();
  EXPECT_EQ(player.count(Kind::Reduce), 2);
}

TEST(Schedule, AUnitThatOnlyPeersHaveGradientsOfIsReducedToo) {
  Player player({.units = 2});
  player.forward({0});
  player.backward(0);
  player.gradients(0, 2, 2);
  EXPECT_THAT(player.schedule.account(), ElementsAre(1, 0, 0, -1, 2, 0));
  Actions actions = player.schedule.reduce_next(std::vector<int64_t>{1, 1, 0, 0, 2, 1});
  EXPECT_EQ(std::count_if(actions.begin(), actions.end(),
                          [](const Action& action) { return action.kind == Kind::Reduce && action.unit == 1; }),
            1);
}

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

TEST(Schedule, OnlyGathersOnThePlanAreForeseen) {
  Player player({.units = 4});
  block_step(player, 3);
  for (const Action& action : player.actions) EXPECT_FALSE(action.foreseen) << to_string(action);
  player.actions.clear();
  block_step(player, 3);
  for (const Action& action : player.actions) {
    EXPECT_EQ(action.foreseen, action.kind == Kind::Gather) << to_string(action);
  }
  player.actions.clear();
  player.forward({3});
  EXPECT_FALSE(player.actions.front().foreseen);
}

TEST(Schedule, AnOperatorOverSeveralUnitsHasThemAllEvenBeyondTheBuffers) {
  Player player({.units = 6});
  for (int step = 0; step < 2; ++step) {
    player.touch({0, 1, 2, 3, 4, 5}, Mode::Forward);
    player.backward(5);
    player.end_backward();
  }
  EXPECT_EQ(player.schedule.buffers(), 6);
}

TEST(Schedule, PinnedUnitsAreNeverReleased) {
  Schedule schedule({.units = 4});
  schedule.operator_begins(std::vector<UnitId>{0}, Mode::Forward);  // one thread's operator, still running
  for (UnitId unit : {1, 2, 3}) {
    std::vector<UnitId> units{unit};
    for (const Action& action : schedule.operator_begins(units, Mode::Forward)) {
      EXPECT_FALSE(action.kind == Kind::Release && action.unit == 0);
    }
    schedule.operator_ends(units);
  }
  EXPECT_EQ(schedule.state(0), Residency::State::Full);
  EXPECT_EQ(schedule.buffers(), 2);
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

TEST(Schedule, ChangedShardsLeaveNothingFull) {
  Player player({.units = 2});
  player.evaluate({0, 1});
  Actions actions = player.schedule.shards_change();
  EXPECT_EQ(actions.size(), 2u);
  for (UnitId unit : {0, 1}) EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
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
  EXPECT_EQ(player.schedule.account()[kBlocks - 1], 1);  // so that a peer that left the unit out joins
  EXPECT_EQ(player.schedule.account()[2 * kBlocks - 1], -1);
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
  EXPECT_EQ(player.schedule.reduction_stalls(4), 2);
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
  EXPECT_THAT(player.schedule.account(), ElementsAre(1, 2, 0, 0, 2, 3));
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
    EXPECT_THAT(player.schedule.account(), ElementsAre(1, 1, 1, 1, -1, -1, -1, -1, 0, 0, 0, 0));
    player.end_backward();
    EXPECT_THAT(player.take(), ElementsAre("Reduce 3", "Reduce 2", "WaitBuffer 3", "Reduce 1", "WaitBuffer 2",
                                           "Reduce 0", "WaitReduce 1", "WaitReduce 0"));
  }
  EXPECT_EQ(player.schedule.gradient_buffers(), 2);
  // What it expects of its own backwards is what it was.
  Player unaware({.units = 4});
  for (int step = 0; step < 2; ++step) block_step(unaware, 4);
  unaware.actions.clear();
  block_step(unaware, 4);
  block_step(player, 4);
  EXPECT_EQ(player.take(), unaware.take());
}

// Blocks 0..L-1, of which those that the backward is done with are given up; returns them, each as often as it was.
std::vector<UnitId> step_that_gives_up(Player& player, int blocks) {
  std::vector<UnitId> given_up;
  const auto give_up = [&] {
    for (UnitId unit = 0; unit < blocks; ++unit) {
      if (!player.schedule.done_with(unit) || std::count(given_up.begin(), given_up.end(), unit) > 0) continue;
      player.add(player.schedule.give_up(unit));
      EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
      given_up.push_back(unit);
    }
  };
  for (UnitId block = 0; block < blocks; ++block) player.forward({block});
  for (UnitId block = blocks - 1; block >= 0; --block) {
    player.backward(block);
    give_up();
    player.gradients(block, 2, 2);
    give_up();
  }
  player.end_backward();
  return given_up;
}

TEST(Schedule, IsDoneWithAUnitOnceTheBackwardHasReducedAndPassedIt) {
  for (FullUntil full_until : {FullUntil::BufferNeeded, FullUntil::EndOfBackward}) {
    Player player({.units = 6, .full_until = full_until});
    EXPECT_THAT(step_that_gives_up(player, 6), ElementsAre());  // there is no plan yet
    const int gathers = player.count(Kind::Gather);
    for (int step = 0; step < 2; ++step) {
      player.actions.clear();
      // Two are reduced at the end of the backward.
      EXPECT_THAT(step_that_gives_up(player, 6), ElementsAre(5, 4, 3, 2));
      EXPECT_EQ(player.count(Kind::Gather), gathers);
    }
  }
}

TEST(Schedule, IsDoneWithAUnitThatIsUsedTwiceAfterItsLastUse) {
  Player player({.units = 5});
  for (int step = 0; step < 3; ++step) {
    player.forward({4, 3, 0, 1, 2, 3});  // unit 3 has its gradients when its later use has been gone through backward
    player.backward(3);
    player.gradients(3, 2, 2);
    for (UnitId unit : {2, 1, 0}) {
      player.backward(unit);
      player.gradients(unit, 2, 2);
    }
    EXPECT_FALSE(player.schedule.done_with(3));
    player.backward(3);
    EXPECT_FALSE(player.schedule.done_with(3));
    player.backward(4);
    player.gradients(4, 2, 2);  // in the buffer of unit 3
    EXPECT_EQ(player.schedule.done_with(3), step > 0);
    player.end_backward();
  }
}

TEST(Schedule, IsNotDoneWithAUnitThatLacksAGradientOrIsUsedOffThePlan) {
  Player player({.units = 4});
  for (int step = 0; step < 2; ++step) block_step(player, 4);
  const auto backward = [&](int gradients_of_the_last) {
    player.backward(3);
    player.gradients(3, gradients_of_the_last, 2);
    for (UnitId unit : {2, 1, 0}) {
      player.backward(unit);
      player.gradients(unit, 2, 2);
    }
  };
  player.forward({0, 1, 2, 3});
  backward(1);
  EXPECT_FALSE(player.schedule.done_with(3));
  EXPECT_TRUE(player.schedule.done_with(2));
  player.end_backward();
  player.forward({0, 1, 2, 1, 3});
  backward(2);
  EXPECT_FALSE(player.schedule.done_with(2));
  player.end_backward();
}

TEST(Schedule, AForwardWithoutBackwardDoesNotChangeThePlan) {
  Player player({.units = 3});
  block_step(player, 3);
  auto plan = player.schedule.training().plan();
  player.forward({0, 1});
  player.schedule.shards_change();
  EXPECT_EQ(player.schedule.training().plan(), plan);
}

TEST(Schedule, AnAbandonedBackwardLeavesNothingOpen) {
  Player player({.units = 3});
  player.forward({0, 1, 2});
  player.backward(2);
  player.gradients(2, 1, 2);
  player.abandon_backward();
  EXPECT_THAT(player.schedule.account(), ElementsAre(0, 0, 0, -1, -1, -1, 0, 0, 0));
  player.actions.clear();
  Player fresh({.units = 3});
  block_step(fresh, 3);
  block_step(player, 3);
  EXPECT_EQ(player.count(Kind::Reduce), fresh.count(Kind::Reduce));
}

}  // namespace
}  // namespace fsdp::schedule
