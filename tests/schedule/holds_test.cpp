// Units that a caller keeps full over several forwards and backwards.
#include <gmock/gmock.h>

#include "schedule/script.h"

namespace fsdp::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr UnitId kHeldUnits[] = {0, 1, 2};

Lines gathers_and_releases(ScriptedRank& rank) { return only(rank.script.take(), {"gather", "release", "all ranks"}); }

TEST(Holds, GatherWithoutRoundsAndWaitAtTheFirstUse) {
  ScriptedRank rank(facts_of_units(3));
  rank.driver.hold(kHeldUnits);
  EXPECT_THAT(rank.script.take(),
              ElementsAre("gather in any order a in 0", "gather in any order b in 1", "gather in any order c in 2"));
  rank.use(1, Mode::Forward);
  EXPECT_THAT(only(rank.script.take(), {"await", "gather"}), ElementsAre("await b"));
}

TEST(Holds, KeepUnitsOverBackwardsUntilTheyEnd) {
  for (FullUntil full_until : {FullUntil::BufferNeeded, FullUntil::EndOfBackward}) {
    ScriptedRank rank(facts_in_shared_memory(4), {.full_until = full_until});
    rank.driver.hold(kHeldUnits);
    rank.script.take();
    for (int i = 0; i < 3; ++i) {
      for (UnitId unit : kHeldUnits) rank.use(unit, Mode::Forward);
      for (UnitId unit : {2, 1, 0}) rank.backward(unit);
      rank.driver.backward_ends();
    }
    const Lines meanwhile = gathers_and_releases(rank);
    for (const char* held : {"a", "b", "c"}) {
      EXPECT_THAT(only(meanwhile, {std::string("gather ") + held, std::string("release ") + held}), IsEmpty());
    }
    rank.driver.let_go(kHeldUnits);
    EXPECT_THAT(only(rank.script.take(), {"release a", "release b", "release c"}),
                ElementsAre("release a", "release b", "release c"));
  }
}

// A plan that is another one's, as in a step of many periods, gathers nothing that was let go.
TEST(Holds, AreTheOnlyGathersAheadOfAUse) {
  ScriptedRank rank(facts_in_shared_memory(3));
  for (int i = 0; i < 2; ++i) {
    rank.micro_batch();
    rank.step();
  }
  rank.driver.release_all();
  const UnitId first[] = {0};
  rank.driver.hold(first);
  rank.script.take();
  rank.use(0, Mode::Forward);
  EXPECT_THAT(gathers_and_releases(rank), IsEmpty());
  rank.driver.let_go(first);
  rank.use(1, Mode::Forward);
  EXPECT_THAT(only(rank.script.take(), {"gather"}), ::testing::Contains(::testing::HasSubstr("gather c")));
}

// As a unit with parameters of two stages.
TEST(Holds, AreCounted) {
  ScriptedRank rank(facts_in_shared_memory(3));
  rank.driver.hold(kHeldUnits);
  const UnitId shared[] = {1};
  rank.driver.hold(shared);
  rank.driver.let_go(kHeldUnits);
  EXPECT_THAT(only(rank.script.take(), {"release"}), ElementsAre("release a", "release c"));
  rank.driver.let_go(shared);
  EXPECT_THAT(only(rank.script.take(), {"release"}), ElementsAre("release b"));
}

// There the first use of any gathers all: a release of a part would only have them gathered again.
TEST(Holds, EndTogetherWhereEachUnitHasABuffer) {
  ScriptedRank rank(facts_in_shared_memory(3), {.full_until = FullUntil::EndOfBackward});
  const UnitId first[] = {0, 1}, second[] = {2};
  rank.driver.hold(first);
  rank.driver.hold(second);
  rank.driver.let_go(second);
  EXPECT_THAT(only(rank.script.take(), {"release"}), IsEmpty());
  rank.use(0, Mode::Forward);
  rank.driver.let_go(first);
  EXPECT_THAT(only(rank.script.take(), {"release"}), ElementsAre("release a", "release b", "release c"));
}

TEST(Holds, LeaveUnitsFullThatStaySoUntilTheShardsChange) {
  ScriptedRank rank(facts_in_shared_memory(3), {.full_until = FullUntil::ShardsChange});
  rank.driver.hold(kHeldUnits);
  rank.driver.let_go(kHeldUnits);
  rank.driver.hold(kHeldUnits);
  EXPECT_THAT(gathers_and_releases(rank), ElementsAre("gather a in 0", "gather b in 1", "gather c in 2"));
}

// As a load after an error in the midst of a step.
TEST(Holds, EndWhenTheShardsChange) {
  ScriptedRank rank(facts_in_shared_memory(3));
  rank.driver.hold(kHeldUnits);
  rank.script.take();
  rank.driver.release_all();
  EXPECT_THAT(gathers_and_releases(rank), ElementsAre("release a", "release b", "release c"));
  rank.driver.let_go(kHeldUnits);
  EXPECT_THAT(rank.script.take(), IsEmpty());
  rank.driver.hold(kHeldUnits);
  EXPECT_THAT(gathers_and_releases(rank), ElementsAre("gather a in 0", "gather b in 1", "gather c in 2"));
}

// Units are gathered for the next micro-batch while the optimizer writes others.
TEST(Holds, TakeGathersThatAreUnderWay) {
  ScriptedRank rank(facts_of_units(2));
  for (int i = 0; i < 2; ++i) {
    rank.micro_batch();
    rank.step();
  }
  const int64_t before = rank.driver.counts().gathers;
  const UnitId both[] = {0, 1};
  rank.driver.hold(both);
  rank.micro_batch();
  rank.driver.let_go(both);
  EXPECT_EQ(rank.driver.counts().gathers - before, 2);
}

}  // namespace
}  // namespace fsdp::schedule
