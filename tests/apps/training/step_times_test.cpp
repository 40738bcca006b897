#include "training/step_times.h"

#include <gtest/gtest.h>

#include <string>

namespace trainer {
namespace {

StepRecord record_of(double seconds) {
  return {.step = 1,
          .step_seconds = seconds,
          .data_seconds = 0.125 * seconds,
          .forward_backward_seconds = 0.5 * seconds,
          .optimizer_seconds = 0.25 * seconds,
          .other_seconds = 0.125 * seconds,
          .wait_seconds = 0.03 * seconds};
}

TEST(StepTimes, AreSharesOfTheMedianStep) {
  StepTimes times;
  for (const double seconds : {9.0, 0.2, 0.2, 0.2, 0.1}) times.add(record_of(seconds));
  EXPECT_EQ(
      times.text(1e9),
      "a step      200.0 ms  forward and backward 50.0 %  optimizer 25.0 %  data 12.5 %  other 12.5 %  of it waits "
      "for other ranks 3.0 %\n");
}

TEST(StepTimes, HaveTheMfuWhereItIsKnown) {
  StepTimes times;
  StepRecord record = record_of(0.2);
  record.mfu = 0.375;
  times.add(record);
  const std::string text = times.text(61.2e9);
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            "MFU          37.5 %   of the 61.2 GFLOP/s that all ranks reach in products of large matrices\n");
}

TEST(StepTimes, OfNothingAreNothing) {
  StepTimes times;
  EXPECT_EQ(times.text(1e9), "");
  times.add({.step = 1, .step_seconds = 1});
  EXPECT_EQ(times.text(1e9), "");
}

TEST(StepTimes, OfALongRunAreThoseOfAllOfIt) {
  StepTimes times;
  constexpr int kSteps = 100'000;
  for (int step = 0; step < kSteps; ++step) times.add(record_of(0.1 + 0.2 * step / kSteps));
  const std::string text = times.text(1e9);
  EXPECT_NEAR(std::stod(text.substr(std::string("a step").size())), 200, 1) << text;
}

}  // namespace
}  // namespace trainer
