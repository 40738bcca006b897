// Ranks that begin reductions in different orders send them in one.
#include "collectives/device/reduction_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "collectives/device/regular_backwards.h"

namespace fsdp::collectives::device {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Units = std::vector<int>;

// Ends a backward: rank 0's order, where it teaches one. Whether it did.
bool end(ReductionOrder& order) {
  const Units begun = order.begun_in_order();
  const bool teaches = order.end(/*everywhere=*/true);
  if (teaches) order.expect(begun);
  return teaches;
}

// Rank 0's order of the last backward.
ReductionOrder expecting(const Units& units) {
  ReductionOrder order;
  for (int unit : units) order.begin(unit);
  end(order);
  return order;
}

TEST(ReductionOrder, IsAtFirstThatOfRegistrationBackwards) {
  ReductionOrder order;
  for (int unit : {0, 1, 0, 2}) order.add(unit);
  EXPECT_THAT(order.begin(1), IsEmpty());
  EXPECT_THAT(order.begin(2), ElementsAre(2, 1));
  EXPECT_THAT(order.begin(0), ElementsAre(0));
  EXPECT_TRUE(end(order));  // in which order rank 0 began them, the others do not know
}

TEST(ReductionOrder, SendsWhatComesAsExpectedAtOnce) {
  ReductionOrder order = expecting({3, 1, 2});
  EXPECT_THAT(order.begin(3), ElementsAre(3));
  EXPECT_THAT(order.begin(1), ElementsAre(1));
  EXPECT_THAT(order.begin(2), ElementsAre(2));
  EXPECT_FALSE(order.held_back(2));
  EXPECT_FALSE(end(order));
}

TEST(ReductionOrder, HoldsBackWhatComesTooEarly) {
  ReductionOrder order = expecting({3, 1, 2});
  EXPECT_THAT(order.begin(1), IsEmpty());
  EXPECT_TRUE(order.held_back(1));
  EXPECT_THAT(order.begin(3), ElementsAre(3, 1));
  EXPECT_FALSE(order.held_back(1));
}

TEST(ReductionOrder, IsLearntAnewAfterASurprise) {
  ReductionOrder order = expecting({1, 0});
  order.begin(1);
  order.flush(1);
  EXPECT_TRUE(end(order));
  EXPECT_THAT(order.begin(1), ElementsAre(1));
  EXPECT_TRUE(end(order));  // the second surprise: from then on in each backward
}

TEST(ReductionOrder, IsLearntInEachBackwardWhereTheyTakeTurns) {
  ReductionOrder order = expecting({1, 0});
  for (int backward = 0; backward < 6; ++backward) {
    for (int unit : backward % 2 == 0 ? Units{2, 0} : Units{1, 0}) order.begin(unit);
    order.flush(0);
    EXPECT_TRUE(end(order)) << backward;
  }
}

TEST(ReductionOrder, IsLearntAfterABackwardInWhichRanksDiffered) {
  ReductionOrder order = expecting({1, 0});
  order.hold_back(true);
  EXPECT_THAT(order.begin(1), IsEmpty());
  EXPECT_THAT(order.begin(0), IsEmpty());
  EXPECT_THAT(order.flush(0), ElementsAre(1, 0));
  EXPECT_TRUE(end(order));
}

TEST(ReductionOrder, PassesOverAUnitThatTheBackwardDoesNotReduce) {
  ReductionOrder order = expecting({3, 2, 1});
  EXPECT_THAT(order.begin(3), ElementsAre(3));
  EXPECT_THAT(order.begin(1), IsEmpty());
  EXPECT_THAT(order.flush(1), ElementsAre(1));
}

TEST(ReductionOrder, SendsSecondReductionsAfterAllFirstOnes) {
  ReductionOrder order = expecting({2, 1});
  order.begin(2);
  EXPECT_THAT(order.begin(2), IsEmpty());
  EXPECT_THAT(order.begin(1), ElementsAre(1));
  EXPECT_TRUE(order.held_back(2));
  EXPECT_THAT(order.flush(2), ElementsAre(2));
  EXPECT_FALSE(order.held_back(2));
}

TEST(ReductionOrder, StartsAnewWithTheNextBackward) {
  ReductionOrder order = expecting({1, 0});
  order.begin(1);
  order.end(/*everywhere=*/false);
  EXPECT_THAT(order.begin(1), ElementsAre(1));
  EXPECT_THAT(order.begin(0), ElementsAre(0));
}

TEST(ReductionOrder, LearnsNothingFromABackwardWithoutReductions) {
  ReductionOrder order = expecting({1, 0});
  EXPECT_FALSE(end(order));
  EXPECT_THAT(order.begin(1), ElementsAre(1));
}

// The reductions that one rank sends in a backward in which it begins `begun`, and then waits for all.
Units sent_by(const Units& expected, const Units& begun) {
  ReductionOrder order = expecting(expected);
  Units sent;
  auto add = [&](const Units& more) { sent.insert(sent.end(), more.begin(), more.end()); };
  for (int unit : begun) add(order.begin(unit));
  for (int unit : begun) {
    if (order.held_back(unit)) add(order.flush(unit));
  }
  return sent;
}

TEST(ReductionOrder, IsTheSameOnEveryRankWhateverTheyBeginFirst) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    Units expected{0, 1, 2, 3, 4, 5};
    std::shuffle(expected.begin(), expected.end(), random);
    Units reduced = expected;
    reduced.resize(1 + random() % reduced.size());  // the others are not, or were not known
    reduced.push_back(6);
    expected.resize(4);
    Units here = reduced, there = reduced;
    std::shuffle(here.begin(), here.end(), random);
    std::shuffle(there.begin(), there.end(), random);
    const Units sent = sent_by(expected, here);
    EXPECT_EQ(sent, sent_by(expected, there)) << ::testing::PrintToString(here) << ::testing::PrintToString(there);
    EXPECT_THAT(sent, ::testing::UnorderedElementsAreArray(reduced));
  }
}

// A backward of these units on one rank; `others`: whether all other ranks repeat theirs.
void run(RegularBackwards& backwards, const Units& units, bool same_gradients = true, bool others = true) {
  for (int unit : units) backwards.begin(unit, same_gradients);
  const bool as_before = backwards.as_before();
  backwards.end(/*everywhere=*/true, as_before && others);
}

TEST(RegularBackwards, RepeatTheLastOneOnAllRanks) {
  RegularBackwards backwards;
  run(backwards, {2, 1, 0}, /*same_gradients=*/false);
  EXPECT_FALSE(backwards.regular());
  run(backwards, {2, 1, 0}, true, /*others=*/false);
  EXPECT_FALSE(backwards.regular());
  run(backwards, {2, 1, 0});
  EXPECT_TRUE(backwards.regular());
  run(backwards, {});  // reduces nothing, as those of no_sync scopes
  EXPECT_TRUE(backwards.regular());
  run(backwards, {2, 0, 1});
  EXPECT_FALSE(backwards.regular());
}

TEST(RegularBackwards, TakeLongerEachTimeThatOneWasNot) {
  RegularBackwards backwards;
  run(backwards, {1, 0});
  for (int needed : {1, 2, 4}) {
    for (int i = 0; i < needed; ++i) {
      EXPECT_FALSE(backwards.regular()) << needed;
      run(backwards, {1, 0});
    }
    EXPECT_TRUE(backwards.regular()) << needed;
    run(backwards, {1, 0}, /*same_gradients=*/false);
  }
}

TEST(RegularBackwards, AreNoneAnyMoreOnceRanksUsedDifferentUnits) {
  RegularBackwards backwards;
  for (int i = 0; i < 2; ++i) run(backwards, {1, 2});
  EXPECT_TRUE(backwards.regular());
  backwards.ranks_differ();
  EXPECT_TRUE(backwards.regular());  // to its end, as peers may have begun reductions without flags
  for (int i = 0; i < 10; ++i) {
    run(backwards, {1, 2});
    EXPECT_FALSE(backwards.regular());
  }
}

TEST(RegularBackwards, AreNoneAfterOneThatWasGivenUp) {
  RegularBackwards backwards;
  for (int i = 0; i < 3; ++i) run(backwards, {1, 0});
  EXPECT_TRUE(backwards.regular());
  backwards.begin(1, true);
  backwards.end(/*everywhere=*/false, false);
  EXPECT_FALSE(backwards.regular());
}

}  // namespace
}  // namespace fsdp::collectives::device
