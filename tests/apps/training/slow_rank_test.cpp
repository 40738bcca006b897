#include "training/slow_rank.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

// Feeds as many steps as one answer needs, and returns it.
std::optional<SlowRank> answer(SlowRankFinder& finder, const std::vector<double>& busy_seconds) {
  for (size_t step = 1; step < SlowRankFinder::kSteps; ++step) EXPECT_FALSE(finder.step(busy_seconds));
  return finder.step(busy_seconds);
}

TEST(SlowRank, IsNamedWithHowSlowItIs) {
  SlowRankFinder finder(4);
  const auto found = answer(finder, {1.0, 1.1, 2.2, 1.0});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_DOUBLE_EQ(found->times, 2.2);
}

TEST(SlowRank, ShowsBesideASingleOther) {
  SlowRankFinder finder(2);
  const auto found = answer(finder, {3.0, 1.0});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
}

TEST(SlowRank, IsNamedOnceUntilItHasCaughtUp) {
  SlowRankFinder finder(2);
  EXPECT_TRUE(answer(finder, {3.0, 1.0}));
  EXPECT_FALSE(answer(finder, {3.0, 1.0}));
  EXPECT_FALSE(answer(finder, {1.0, 1.0}));
  EXPECT_TRUE(answer(finder, {3.0, 1.0}));
}

TEST(SlowRank, IsNotOneSlowStep) {
  SlowRankFinder finder(3);
  EXPECT_FALSE(finder.step({50.0, 1.0, 1.0}));
  for (size_t step = 1; step < SlowRankFinder::kSteps; ++step) EXPECT_FALSE(finder.step({1.0, 1.0, 1.2}));
}

TEST(SlowRank, IsNeverASingleRank) {
  SlowRankFinder finder(1);
  EXPECT_FALSE(answer(finder, {1.0}));
}

TEST(SlowRank, IsNotFoundInStepsOfMoments) {
  SlowRankFinder finder(2);
  EXPECT_FALSE(answer(finder, {0.04, 0.001}));
}

TEST(SlowRank, IsNotFoundWhereNothingTakesTime) {
  SlowRankFinder finder(2);
  EXPECT_FALSE(answer(finder, {0.0, 0.0}));
}

}  // namespace
}  // namespace trainer
