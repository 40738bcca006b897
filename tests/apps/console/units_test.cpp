#include "console/units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainer {
namespace {

TEST(Units, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(12834304), "12,834,304");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(short_number(912), "912");
  EXPECT_EQ(short_number(999.6), "1.0k");
  EXPECT_EQ(short_number(14213), "14.2k");
  EXPECT_EQ(short_number(142130), "142k");
  EXPECT_EQ(short_bytes(3'940'000), "3.9 MB");
  EXPECT_EQ(operation_rate(7.4e15), "7.4 PFLOP/s");
  EXPECT_EQ(scientific(3e-3), "3.0e-3");
  EXPECT_EQ(scientific(1.5e-12), "1.5e-12");
  EXPECT_EQ(scientific(20), "2.0e+1");
}

TEST(Units, Counts) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1200, "micro-batch", "micro-batches"), "1,200 micro-batches");
}

TEST(Units, Durations) {
  EXPECT_EQ(duration(0), "0:00");
  EXPECT_EQ(duration(59.6), "1:00");
  EXPECT_EQ(duration(754), "12:34");
  EXPECT_EQ(duration(3723), "1:02:03");
  EXPECT_EQ(duration(std::nan("")), "?");
  EXPECT_EQ(duration(1e300), duration(1e15));
}

TEST(Units, RoughDurations) {
  EXPECT_EQ(rough_duration(0.04), "40 ms");
  EXPECT_EQ(rough_duration(0.387), "390 ms");
  EXPECT_EQ(rough_duration(2.04), "2.0 s");
  EXPECT_EQ(rough_duration(42.4), "42 s");
  EXPECT_EQ(rough_duration(99.6), "1.7 min");
  EXPECT_EQ(rough_duration(11 * 60 + 50), "12 min");
  EXPECT_EQ(rough_duration(70 * 60), "1 h 10 min");
  EXPECT_EQ(rough_duration(12'000), "3 h 20 min");
  EXPECT_EQ(rough_duration(10'900), "3 h");
  EXPECT_EQ(rough_duration(2.5 * 86'400), "2.5 days");
  EXPECT_EQ(rough_duration(100 * 86'400.0), "100 days");
  EXPECT_EQ(rough_duration(3e8), "9.5 years");
  EXPECT_EQ(rough_duration(1e11), "3,171 years");
  EXPECT_EQ(rough_duration(1e300), "more than a million years");
  EXPECT_EQ(rough_duration(std::nan("")), "more than a million years");
}

}  // namespace
}  // namespace trainer
