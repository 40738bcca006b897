// When units are reduced, and in which gradient buffers.
#include <gmock/gmock.h>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using ::testing::ElementsAre;

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

TEST(Schedule, AUnitThatLiesInTwoRecomputedPartsIsReducedOnce) {
  Player player({.units = 3});
  for (int step = 0; step < 3; ++step) {
    player.forward({0, 1, 2});  // 0 and a half of 1, then the other half and 2
    player.run_again({1, 2});
    player.backward(2);
    player.gradients(2, 2, 2);
    player.backward(1);
    player.gradients(1, 1, 2);
    player.run_again({0, 1});
    player.backward(1);
    player.gradients(1, 1, 2);
    player.backward(0);
    player.gradients(0, 2, 2);
    player.end_backward();
    for (UnitId unit = 0; unit < 3; ++unit) EXPECT_EQ(player.count(Kind::Reduce, unit), 1) << "step " << step;
    player.actions.clear();
  }
}

// In the first backward too, of which nothing is known yet.
TEST(Schedule, UnitsThatRunAgainTakeNoMoreGradientBuffersThanOthers) {
  Player player({.units = 8, .gradient_buffers = 2});
  for (int step = 0; step < 3; ++step) {
    player.forward({0, 1, 2, 3, 4, 5, 6, 7});
    for (UnitId unit = 7; unit >= 0; --unit) {
      player.run_again({unit});
      player.backward(unit);
      player.gradients(unit, 2, 2);
      EXPECT_LE(player.schedule.gradient_buffers(), 2) << "step " << step << " unit " << unit;
    }
    player.end_backward();
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

TEST(Schedule, AnAbandonedBackwardLeavesNothingOpen) {
  Player player({.units = 3});
  player.forward({0, 1, 2});
  player.backward(2);
  player.gradients(2, 1, 2);
  player.abandon_backward();
  EXPECT_EQ(player.schedule.counts(), UnitCounts(3));
  player.actions.clear();
  Player fresh({.units = 3});
  block_step(fresh, 3);
  block_step(player, 3);
  EXPECT_EQ(player.count(Kind::Reduce), fresh.count(Kind::Reduce));
}

}  // namespace
}  // namespace fsdp::schedule
