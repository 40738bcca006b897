// Whether a run is said to end while its loss still falls.
#include "training/loss_trend.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainer {
namespace {

TEST(LossTrend, FallsWhereTheLastIsAHundredthBelowTheLowestBefore) {
  const auto before = lowest_before_fall({{.step = 80, .loss = 2}, {.step = 100, .loss = 1.9}});
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->step, 80);
  EXPECT_EQ(before->loss, 2);
  EXPECT_FALSE(lowest_before_fall({{.step = 80, .loss = 2}, {.step = 100, .loss = 1.99}}));
  EXPECT_FALSE(lowest_before_fall({{.step = 80, .loss = 2}, {.step = 100, .loss = 2.1}}));
}

TEST(LossTrend, IsOfTheLastFifth) {
  const auto before = lowest_before_fall(
      {{.step = 50, .loss = 3}, {.step = 70, .loss = 2.1}, {.step = 90, .loss = 1.95}, {.step = 100, .loss = 1.94}});
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->step, 70);
  // Nothing lies far enough back.
  EXPECT_FALSE(lowest_before_fall({{.step = 90, .loss = 2}, {.step = 100, .loss = 1}}));
  EXPECT_FALSE(lowest_before_fall({{.step = 100, .loss = 1}}));
  EXPECT_FALSE(lowest_before_fall({}));
}

TEST(LossTrend, RisesWhereAnEarlierLossWasLower) {
  EXPECT_FALSE(lowest_before_fall({{.step = 80, .loss = 2}, {.step = 90, .loss = 1.8}, {.step = 100, .loss = 1.9}}));
  EXPECT_FALSE(lowest_before_fall({{.step = 80, .loss = 2}, {.step = 100, .loss = NAN}}));
  EXPECT_FALSE(lowest_before_fall({{.step = 80, .loss = NAN}, {.step = 100, .loss = NAN}}));
}

}  // namespace
}  // namespace trainer
