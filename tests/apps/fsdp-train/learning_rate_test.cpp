#include "fsdp-train/learning_rate.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(LearningRate, RisesInALineAndFallsToATenth) {
  const LearningRate rate{.peak = 1.0, .warmup = 4, .steps = 104};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(53), 0.55);  // half-way down
  EXPECT_DOUBLE_EQ(rate.at(103), 0.1);
  for (int64_t step = 4; step < 104; ++step) EXPECT_LT(rate.at(step), rate.at(step - 1));
}

TEST(LearningRate, WithoutWarmUpBeginsNearThePeak) {
  const LearningRate rate{.peak = 2.0, .warmup = 0, .steps = 1000};
  EXPECT_NEAR(rate.at(0), 2.0, 1e-4);
  EXPECT_DOUBLE_EQ(rate.at(999), 0.2);
}

TEST(LearningRate, MayBeAllWarmUp) {
  const LearningRate rate{.peak = 1.0, .warmup = 10, .steps = 10};
  EXPECT_DOUBLE_EQ(rate.at(9), 1.0);
}

TEST(LearningRate, OfOneStep) { EXPECT_DOUBLE_EQ((LearningRate{.peak = 1.0, .warmup = 0, .steps = 1}.at(0)), 0.1); }

}  // namespace
}  // namespace trainer
