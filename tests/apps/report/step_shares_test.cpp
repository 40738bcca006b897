// The division of the time of traced steps.
#include "report/step_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/report/sample_profile.h"

namespace trainer {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kExact = 1e-12;

// Times in milliseconds.
TraceSpan span(const char* kind, const char* name, int64_t begin, int64_t end) {
  return {kind, name, begin * 1'000'000, end * 1'000'000};
}

RankTrace rank_with(int rank, std::vector<TraceSpan> spans) {
  spans.insert(spans.begin(), span("program", "step 1", 0, 100));
  std::ranges::sort(spans, {}, &TraceSpan::begin);
  return {.rank = rank, .spans = spans};
}

void expect_shares(const TimeShares& found, const TimeShares& milliseconds) {
  const TimeShares expected = milliseconds.divided_by(1000);
  EXPECT_NEAR(found.computation, expected.computation, kExact);
  EXPECT_NEAR(found.exposed, expected.exposed, kExact);
  EXPECT_NEAR(found.waiting, expected.waiting, kExact);
  EXPECT_NEAR(found.idle, expected.idle, kExact);
  EXPECT_NEAR(found.others, expected.others, kExact);
}

// Rank 1 begins the reduction 15 ms after rank 0 does.
TEST(StepShares, DivideAWaitWhereTheLastRankBegins) {
  const StepShares shares =
      step_shares({rank_with(0, {span("backward", "backward a", 0, 10), span("reduce", "reduce a", 10, 40),
                                 span("waits", "reduce a", 12, 40)}),
                   rank_with(1, {span("backward", "backward a", 0, 25), span("reduce", "reduce a", 25, 40),
                                 span("waits", "reduce a", 26, 40)})});
  ASSERT_EQ(shares.ranks.size(), 2);
  expect_shares(shares.ranks[0].time, {.computation = 10, .exposed = 15, .waiting = 13, .others = 62});
  expect_shares(shares.ranks[1].time, {.computation = 25, .exposed = 14, .others = 61});
  EXPECT_THAT(shares.waited_for, ElementsAre(0, DoubleNear(0.013, kExact)));
  ASSERT_EQ(shares.units.size(), 1);
  EXPECT_EQ(shares.units[0].name, "a");
  expect_shares(shares.units[0].time, {.computation = 17.5, .exposed = 14.5, .waiting = 6.5});
}

// The second gather of a unit belongs to the second one of the other rank.
TEST(StepShares, CompareExchangesInTheirOrder) {
  const auto gathers = [](int rank, int64_t second) {
    return rank_with(rank, {span("gather", "gather a", 0, 5), span("waits", "gather a", 0, 5),
                            span("gather", "gather a", second, 60), span("waits", "gather a", second, 60)});
  };
  const StepShares shares = step_shares({gathers(0, 20), gathers(1, 50)});
  expect_shares(shares.ranks[0].time, {.exposed = 15, .waiting = 30, .others = 55});
  expect_shares(shares.ranks[1].time, {.exposed = 15, .others = 85});
}

TEST(StepShares, CompareRanksOfOnePartAlone) {
  const auto reduction = [](int rank, int64_t begin) {
    return rank_with(rank, {span("reduce", "reduce a", begin, 60), span("waits", "reduce a", begin, 60)});
  };
  const StepShares shares = step_shares({reduction(0, 10), reduction(1, 40), reduction(2, 20), reduction(3, 40)}, 2);
  expect_shares(shares.ranks[0].time, {.exposed = 40, .waiting = 10, .others = 50});
}

// A wait within a computation counts once, and so does idle time.
TEST(StepShares, CountEachMomentOnce) {
  const StepShares shares = step_shares(
      {rank_with(0, {span("forward", "forward a", 0, 50), span("waits", "readers of the shards", 10, 20),
                     span("pipeline idle", "idle", 15, 30), span("waits", "agreement of all ranks", 60, 70),
                     span("program", "exchange of losses", 80, 90), span("program", "reading of losses", 90, 95)})});
  expect_shares(shares.mean, {.computation = 35, .exposed = 20, .waiting = 10, .idle = 10, .others = 25});
}

TEST(StepShares, CountPassesWithoutUnitsForTheirStage) {
  const StepShares shares =
      step_shares({rank_with(0, {span("pipeline", "12W3", 0, 50), span("forward", "forward a", 10, 30),
                                 span("pipeline", "1SEND_F0", 60, 70), span("pipeline", "1UNSHARD", 80, 90)})});
  expect_shares(shares.mean, {.computation = 50, .others = 50});
  ASSERT_EQ(shares.units.size(), 2);
  EXPECT_EQ(shares.units[0].name, "stage 12");
  EXPECT_NEAR(shares.units[0].time.computation, 0.03, kExact);
}

TEST(StepShares, LeaveOutTheTimeBetweenSteps) {
  RankTrace trace = rank_with(0, {span("forward", "forward a", 90, 120)});
  trace.spans.push_back(span("program", "step 2", 200, 300));
  const StepShares shares = step_shares({trace});
  EXPECT_EQ(shares.steps, 2);
  expect_shares(shares.mean, {.computation = 5, .others = 95});
}

TEST(StepShares, AddUpToTheSteps) {
  const StepShares shares = step_shares(sample_profile().ranks);
  EXPECT_EQ(shares.steps, 3);
  EXPECT_NEAR(shares.mean.sum(), 0.09, kExact);
  TimeShares units{.others = shares.mean.others};
  for (const NamedShares& unit : shares.units) units.add(unit.time);
  EXPECT_NEAR(units.sum(), shares.mean.sum(), kExact);
}

}  // namespace
}  // namespace trainer
