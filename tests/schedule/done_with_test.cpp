// When a backward is done with a unit.
#include <gmock/gmock.h>

#include <algorithm>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using ::testing::ElementsAre;

// Blocks 0..L-1, of which those that the backward is done with are given up; returns them, each as often as it was.
std::vector<UnitId> step_that_gives_up(Player& player, int blocks) {
  std::vector<UnitId> given_up;
  const auto leave_all = [&] {
    for (UnitId unit = 0; unit < blocks; ++unit) {
      if (!player.schedule.may_leave(unit) || std::count(given_up.begin(), given_up.end(), unit) > 0) continue;
      player.add(player.schedule.leave(unit));
      EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
      given_up.push_back(unit);
    }
  };
  for (UnitId block = 0; block < blocks; ++block) player.forward({block});
  for (UnitId block = blocks - 1; block >= 0; --block) {
    player.backward(block);
    leave_all();
    player.gradients(block, 2, 2);
    leave_all();
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
    EXPECT_FALSE(player.schedule.may_leave(3));
    player.backward(3);
    EXPECT_FALSE(player.schedule.may_leave(3));
    player.backward(4);
    player.gradients(4, 2, 2);  // in the buffer of unit 3
    EXPECT_EQ(player.schedule.may_leave(3), step > 0);
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
  EXPECT_FALSE(player.schedule.may_leave(3));
  EXPECT_TRUE(player.schedule.may_leave(2));
  player.end_backward();
  player.forward({0, 1, 2, 1, 3});
  backward(2);
  EXPECT_FALSE(player.schedule.may_leave(2));
  player.end_backward();
}

}  // namespace
}  // namespace fsdp::schedule
