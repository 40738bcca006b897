#include "plan/scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/error.h"
#include "plan/failures.h"

namespace fsdp::plan {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr StepSeconds kPlainStep{.step = 2, .compute = 1.5, .exposed_communication = 0.3, .idle = 0.2};
constexpr ClusterFacts kPerfect{.spread = 0, .rank_failures = kForever, .host_failures = kForever};

TEST(Scaling, IsFlatWithoutSpreadAndFailures) {
  for (const int64_t ranks : {1, 8, 4096, 100'000}) {
    const ScalingPoint point = scaling_point(kPlainStep, ranks, (ranks + 7) / 8, 6e14, kPerfect);
    EXPECT_EQ(point.rate(), 3e14);
    EXPECT_EQ(point.useful, 1);
    EXPECT_EQ(point.wait, 0);
    EXPECT_EQ(point.save_interval, kForever);
  }
}

TEST(Scaling, PartsAddUpToTheTime) {
  for (const int64_t ranks : {1, 8, 4096, 100'000}) {
    const ScalingPoint point = scaling_point(kPlainStep, ranks, (ranks + 7) / 8, 6e14, {});
    double all = 0;
    for (const TimePart part : kTimeParts) all += point.share(part);
    EXPECT_NEAR(all, 1, 1e-12) << ranks;
    ScalingPoint slowed = point;
    slowed.slowdown = 0.1;
    EXPECT_NEAR(slowed.share(TimePart::Slowdown) / point.share(TimePart::Communication), 1.0 / 3, 1e-12);
    EXPECT_NEAR(slowed.share(TimePart::Communication) / point.share(TimePart::Communication), 2.0 / 3, 1e-12);
    // The operations take the time of the computation.
    EXPECT_NEAR(point.rate(), point.share(TimePart::Compute) * 6e14 / 1.5, 1);
  }
}

TEST(Scaling, RanksAreSlowerInLargerJobs) {
  double before = kForever;
  for (int64_t ranks = 16; ranks <= 131'072; ranks *= 2) {
    const ScalingPoint point = scaling_point(kPlainStep, ranks, ranks / 8, 6e14, {});
    EXPECT_LT(point.rate(), before) << ranks;
    before = point.rate();
  }
}

// The mean of the slowest of drawn ranks.
TEST(Scaling, WaitsForTheSlowestOfDrawnRanks) {
  constexpr int kRanks = 512, kMeasured = 8, kDraws = 1000;
  const ClusterFacts facts{.spread = 0.03, .measured_ranks = kMeasured};
  std::mt19937 generator(3);
  std::normal_distribution<double> of_rank(kPlainStep.compute, facts.spread * kPlainStep.compute);
  double wait = 0;
  for (int i = 0; i < kDraws; ++i) {
    double all = 0, measured = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      all = std::max(all, of_rank(generator));
      if (rank + 1 == kMeasured) measured = all;
    }
    wait += (all - measured) / kDraws;
  }
  // 4 %: four deviations of the mean of so many draws.
  EXPECT_NEAR(scaling_point(kPlainStep, kRanks, 64, 1, facts).wait / wait, 1, 0.04);
}

TEST(Scaling, RanksAndHostsFail) {
  const ClusterFacts facts{.rank_failures = 1000, .host_failures = 400};
  EXPECT_NEAR(scaling_point(kPlainStep, 16, 2, 1, facts).between_failures, 1 / (16 / 1000.0 + 2 / 400.0), 1e-9);
  // Large hosts fail as often as small ones, so fewer of them do.
  EXPECT_GT(scaling_point(kPlainStep, 1024, 16, 1, {}).useful, scaling_point(kPlainStep, 1024, 128, 1, {}).useful);
}

// Dubey et al., 2024, "The Llama 3 herd of models": 419 unexpected interruptions in 54 days on 16,384 GPUs, and more
// than 90 % effective training time.
TEST(Scaling, DefaultsAreThoseOfAPublishedRun) {
  const ScalingPoint llama3 = scaling_point(kPlainStep, 16'384, 2048, 1, {});
  EXPECT_NEAR(54 * 24 * 3600 / llama3.between_failures, 419, 0.02 * 419);
  EXPECT_GT(llama3.useful, 0.90);
  EXPECT_LT(llama3.useful, 0.92);
}

TEST(Scaling, NoOtherIntervalLosesLess) {
  for (const int64_t ranks : {64, 4096, 100'000}) {
    const ScalingPoint point = scaling_point(kPlainStep, ranks, ranks / 8, 1, {});
    const FailureTimes times{.between_failures = point.between_failures, .save = 10, .restart = 600};
    double best = 0;
    for (double interval = 1; interval < 1e6; interval *= 1.001) best = std::max(best, useful_share(times, interval));
    EXPECT_NEAR(point.useful / best, 1, 2e-4) << ranks;
    EXPECT_LE(point.useful, best * (1 + 1e-6));
  }
}

TEST(Scaling, CheckpointsWithoutCostLoseOnlyRestarts) {
  const ClusterFacts facts{.rank_failures = 1e5, .host_failures = kForever, .save = 0, .restart = 100};
  const double useful = scaling_point(kPlainStep, 100, 1, 1, facts).useful;
  EXPECT_NEAR(useful, std::exp(-0.1), 1e-12);
  // The limit of short checkpoints.
  ClusterFacts short_saves = facts;
  short_saves.save = 1e-6;
  EXPECT_NEAR(scaling_point(kPlainStep, 100, 1, 1, short_saves).useful, useful, 1e-4);
}

ScalingPoint with_parts(int64_t ranks, double communication, double wait) {
  return {.ranks = ranks,
          .step = {.step = 1 + communication, .compute = 1, .exposed_communication = communication},
          .wait = wait};
}

TEST(Scaling, BendsWhereAPartPassesTheShare) {
  const std::vector<ScalingPoint> points = {with_parts(8, 0, 0), with_parts(16, 0.05, 0.2), with_parts(32, 0.5, 0.3),
                                            with_parts(64, 0.9, 0.1)};
  const std::vector<Bend> bends = bends_of(points, 0.1);
  ASSERT_EQ(bends.size(), 2u);
  EXPECT_EQ(bends[0].part, TimePart::SlowestRank);
  EXPECT_EQ(bends[0].point, 1u);
  EXPECT_EQ(bends[1].part, TimePart::Communication);
  EXPECT_EQ(bends[1].point, 2u);
  EXPECT_TRUE(bends_of(std::span(points).first(1), 0.1).empty());
  EXPECT_TRUE(bends_of({}, 0.1).empty());
}

TEST(Scaling, RefusesNonsense) {
  const std::pair<ClusterFacts, const char*> wrong[] = {
      {{.spread = -0.1}, "spread"},       {{.spread = NAN}, "spread"},          {{.measured_ranks = 0}, "measured"},
      {{.rank_failures = 0}, "failures"}, {{.host_failures = NAN}, "failures"}, {{.save = -1}, "checkpoint"},
      {{.restart = kForever}, "restart"}};
  for (const auto& [facts, word] : wrong) {
    try {
      scaling_point(kPlainStep, 8, 1, 1, facts);
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(scaling_point(kPlainStep, 0, 1, 1, {}), Error);
  EXPECT_THROW(scaling_point(kPlainStep, 8, 0, 1, {}), Error);
}

}  // namespace
}  // namespace fsdp::plan
