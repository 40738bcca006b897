// The answers of one unit's progress, by its three axes.
#include "schedule/unit_progress.h"

#include <gtest/gtest.h>

namespace fsdp::schedule {
namespace {

UnitProgress reduced_whole() {
  UnitProgress unit;
  unit.full = UnitProgress::Full::Full;
  unit.arrived = unit.reduced = unit.most = 2;
  unit.reductions = 1;
  return unit;
}

TEST(UnitProgress, MayLeaveOnceAllItsGradientsAreInTheSumAndItIsUsedNoMore) {
  EXPECT_TRUE(reduced_whole().may_leave(/*used_again=*/false));
  EXPECT_FALSE(reduced_whole().may_leave(/*used_again=*/true));
  UnitProgress unit = reduced_whole();
  unit.pins = 1;
  EXPECT_FALSE(unit.may_leave(false));
  unit.pins = 0;
  unit.given_up = true;
  EXPECT_FALSE(unit.may_leave(false));
}

TEST(UnitProgress, IsNotCompleteWithALateOpenMissingOrSecondReduction) {
  for (void (*change)(UnitProgress&) : {
           +[](UnitProgress& unit) { unit.late = true; },
           +[](UnitProgress& unit) { unit.gradients = UnitProgress::Gradients::Open; },
           +[](UnitProgress& unit) { unit.gradients = UnitProgress::Gradients::Reducing; },
           +[](UnitProgress& unit) { unit.most = 3; },
           +[](UnitProgress& unit) { unit.most = 0; },
           +[](UnitProgress& unit) { unit.arrived = 3; },
           +[](UnitProgress& unit) { unit.reductions = 2; },
       }) {
    UnitProgress unit = reduced_whole();
    ASSERT_TRUE(unit.complete());
    change(unit);
    EXPECT_FALSE(unit.complete());
  }
}

TEST(UnitProgress, MayStepWhereThisRankAndItsPeersHaveLeftIt) {
  UnitProgress unit;
  EXPECT_FALSE(unit.may_step(/*peers_left=*/true));
  unit.shard = UnitProgress::Shard::Left;
  EXPECT_TRUE(unit.may_step(true));
  EXPECT_FALSE(unit.may_step(false));
  unit.shard = UnitProgress::Shard::Stepped;
  EXPECT_FALSE(unit.may_step(true));
}

TEST(UnitProgress, IsGatheredForTheNextMicroBatchOnlyIfItIsNotThere) {
  UnitProgress unit;
  EXPECT_TRUE(unit.may_gather_next(/*comes_first=*/true, /*room=*/true));
  EXPECT_FALSE(unit.may_gather_next(false, true));
  EXPECT_FALSE(unit.may_gather_next(true, false));
  unit.full = UnitProgress::Full::Gathering;
  EXPECT_FALSE(unit.may_gather_next(true, true));
  EXPECT_FALSE(unit.gathered_next());
  unit.shard = UnitProgress::Shard::Stepped;
  EXPECT_TRUE(unit.gathered_next());
}

TEST(UnitProgress, OfABackwardIsForgottenByTheNextAndTheMostIsNot) {
  UnitProgress unit = reduced_whole();
  unit.late = true;
  unit.begin_backward();
  EXPECT_FALSE(unit.complete());
  EXPECT_EQ(unit.arrived + unit.reduced + unit.reductions + unit.late, 0);
  EXPECT_EQ(unit.most, 2);
}

}  // namespace
}  // namespace fsdp::schedule
