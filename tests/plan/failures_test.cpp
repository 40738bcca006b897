#include "plan/failures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace fsdp::plan {
namespace {

constexpr FailureTimes kTimes{.between_failures = 40'000, .save = 60, .restart = 300};

// The share of useful training in a job that runs until it has trained for `work` seconds.
double drawn_share(const FailureTimes& times, double interval, double work, unsigned seed) {
  std::mt19937 generator(seed);
  std::exponential_distribution<double> until_failure(1 / times.between_failures);
  double elapsed = 0, trained = 0, next = until_failure(generator);
  while (trained < work) {
    if (next >= interval + times.save) {
      trained += interval;
      elapsed += interval + times.save;
      next -= interval + times.save;
      continue;
    }
    elapsed += next;
    for (next = until_failure(generator); next < times.restart; next = until_failure(generator)) elapsed += next;
    elapsed += times.restart;
    next -= times.restart;
  }
  return trained / elapsed;
}

TEST(Failures, YoungAndDalyAgreeForRareFailures) {
  EXPECT_NEAR(young_interval(kTimes), 2190.9, 0.1);
  EXPECT_NEAR(daly_interval(kTimes) / young_interval(kTimes), 1, 0.03);
}

TEST(Failures, TheUsefulShareIsThatOfDrawnFailures) {
  for (const double interval : {500.0, 2000.0, 20'000.0}) {
    // 1 %: four deviations of the mean of some 25,000 drawn failures.
    EXPECT_NEAR(drawn_share(kTimes, interval, 1e9, 7) / useful_share(kTimes, interval), 1, 0.01) << interval;
  }
}

TEST(Failures, DalysIntervalLosesLeast) {
  for (const double mean : {2'000.0, 40'000.0, 1e6}) {
    const FailureTimes times{.between_failures = mean, .save = 60, .restart = 300};
    const double best = daly_interval(times);
    EXPECT_GT(useful_share(times, best), useful_share(times, best * 0.8));
    EXPECT_GT(useful_share(times, best), useful_share(times, best * 1.25));
  }
}

TEST(Failures, ACheckpointThatTakesLongerThanTheJobLives) {
  EXPECT_EQ(daly_interval({.between_failures = 10, .save = 30}), 10);
}

TEST(Failures, RefuseNonsense) {
  EXPECT_THROW(young_interval({}), Error);
  EXPECT_THROW(daly_interval({.between_failures = 1, .save = -1}), Error);
  EXPECT_THROW(useful_share(kTimes, 0), Error);
  EXPECT_THROW(expected_largest(0), Error);
}

TEST(ExpectedLargest, OfNormalVariables) {
  // Tippett, 1925, "On the extreme individuals and the range of samples".
  EXPECT_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 0.56419, 1e-4);
  EXPECT_NEAR(expected_largest(10), 1.53875, 1e-4);
  EXPECT_NEAR(expected_largest(1000), 3.24144, 1e-4);
  EXPECT_GT(expected_largest(100'000), 4.3);
  EXPECT_LT(expected_largest(100'000), 4.5);
}

}  // namespace
}  // namespace fsdp::plan
