#include "training/measured_peak.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

// The first measurement, and what the next ones find.
struct Machine {
  double next;
  int measured = 0;
  MeasuredPeak peak(double first) {
    return {first, [this] {
              ++measured;
              return next;
            }};
  }
};

TEST(MeasuredPeak, StaysWhereStepsAreSlower) {
  Machine machine{.next = 200e9};
  MeasuredPeak peak = machine.peak(100e9);
  EXPECT_EQ(peak.check(100e9), "");
  EXPECT_EQ(peak.flops(), 100e9);
  EXPECT_EQ(machine.measured, 0);
}

TEST(MeasuredPeak, ThatWasTooLowIsMeasuredAgain) {
  Machine machine{.next = 200e9};
  MeasuredPeak peak = machine.peak(1e9);
  EXPECT_EQ(
      peak.check(90e9),
      "MFU: a step reached 90.0 GFLOP/s, and the measured peak was 1.0 GFLOP/s; measured again, it is 200 GFLOP/s");
  EXPECT_EQ(peak.flops(), 200e9);
  EXPECT_EQ(peak.check(150e9), "");
  EXPECT_EQ(machine.measured, 1);
}

TEST(MeasuredPeak, IsThatOfAStepWhereTheMeasurementStaysBelow) {
  Machine machine{.next = 80e9};
  MeasuredPeak peak = machine.peak(1e9);
  EXPECT_EQ(
      peak.check(90e9),
      "MFU: a step reached 90.0 GFLOP/s, and the measured peak was 1.0 GFLOP/s; measured again, it is 80.0 GFLOP/s, so "
      "that of the step counts");
  EXPECT_EQ(peak.flops(), 90e9);
  EXPECT_EQ(peak.check(90e9), "");
  EXPECT_EQ(machine.measured, 1);  // steps of one speed do not measure again and again
}

}  // namespace
}  // namespace trainer
