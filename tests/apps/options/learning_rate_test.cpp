#include "options/learning_rate.h"

#include <fsdp/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

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

// The rates that runs were trained with before there were other schedules, to the last bit.
TEST(LearningRate, OfTheCosineIsTheFormula) {
  for (double peak : {1e-3, 6e-3, 3e-4, 0.7}) {
    const LearningRate rate{.peak = peak, .warmup = 60, .steps = 300};
    for (int64_t step = 60; step < 300; ++step) {
      const double done = static_cast<double>(step + 1 - 60) / 240.0, lowest = peak / 10;
      EXPECT_EQ(rate.at(step), lowest + (peak - lowest) * 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
    }
  }
}

TEST(LearningRate, FallsInALine) {
  const LearningRate rate{
      .peak = 1.0, .warmup = 4, .steps = 104, .schedule = schedule_named("linear"), .final_share = 0};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(53), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(78), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(103), 0.0);
}

TEST(LearningRate, StaysBeforeItDecays) {
  const LearningRate rate{.peak = 0.7,
                          .warmup = 10,
                          .steps = 100,
                          .schedule = schedule_named("wsd"),
                          .final_share = 0.5,
                          .decay_steps = 20};
  for (int64_t step = 9; step < 80; ++step) EXPECT_EQ(rate.at(step), 0.7) << step;
  EXPECT_DOUBLE_EQ(rate.at(89), 0.525);
  EXPECT_DOUBLE_EQ(rate.at(99), 0.35);
}

TEST(LearningRate, IsConstantAfterTheWarmUp) {
  const LearningRate rate{.peak = 0.7, .warmup = 2, .steps = 50, .schedule = schedule_named("constant")};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.35);
  for (int64_t step = 1; step < 50; ++step) EXPECT_EQ(rate.at(step), 0.7) << step;
}

TEST(LearningRate, HasNoOtherSchedules) { EXPECT_THROW(schedule_named("polynomial"), fsdp::Error); }

}  // namespace
}  // namespace trainer
