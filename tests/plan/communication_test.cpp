// Bytes that ranks receive, beside the formulas of the FSDP paper (Zhao et al., arXiv:2304.11277, section 3.2) and of
// ZeRO (arXiv:1910.02054, section 7).
#include <fsdp/error.h>
#include <fsdp/plan.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

constexpr double kRanks = 64, kGpusOfHost = 8, kNumel = 10 * 64 * 64 * 1000.0;
constexpr double kModel = 4 * kNumel;             // M, in bytes
constexpr double kShare = (kRanks - 1) / kRanks;  // (W - 1) / W

// Ten units, whose slices need no padding.
Communication communication_of(const char* strategy, UnitUses uses, bool on_gpus = true) {
  const std::vector<Unit> units(10, {{.numel = 64 * 64 * 1000}});
  Sharding sharding = sharding_of(strategy, static_cast<int64_t>(kRanks), static_cast<int64_t>(kRanks / kGpusOfHost));
  sharding.on_gpus = on_gpus;
  const std::vector<Communication> of_rank = communication(units, sharding, std::vector(10, uses));
  EXPECT_EQ(of_rank.size(), 8u);
  for (const Communication& other : of_rank) EXPECT_EQ(other.sum().sum(), of_rank[0].sum().sum());
  return of_rank[0];
}

TEST(Communication, OfReplicasOnGpusIsTwiceTheModel) {
  const Traffic sum = communication_of("no-shard", {.gathers = 0, .reductions = 1}).sum();
  EXPECT_DOUBLE_EQ(sum.sum(), 2 * kModel * kShare);
}

TEST(Communication, OfFullShardOnGpusIsThreeTimesTheModel) {
  const Communication traffic = communication_of("full-shard", {.gathers = 2, .reductions = 1});
  EXPECT_DOUBLE_EQ(traffic.sum().sum(), 3 * kModel * kShare);
  EXPECT_DOUBLE_EQ(traffic.gathers.sum(), 2 * kModel * kShare);
  EXPECT_EQ(traffic.gathers_count, 20);
  EXPECT_EQ(traffic.reductions_count, 10);
  // A ring enters each host once.
  EXPECT_DOUBLE_EQ(traffic.sum().across, 3 * kModel * kShare / kGpusOfHost);
}

// ZeRO's 2P for stages 1 and 2.
TEST(Communication, OfWholeParametersPerStepOnGpusIsTwiceTheModel) {
  for (const char* strategy : {"shard-optimizer", "shard-grad-op"}) {
    const Traffic sum = communication_of(strategy, {.gathers = 1, .reductions = 1}).sum();
    EXPECT_DOUBLE_EQ(sum.sum(), 2 * kModel * kShare) << strategy;
  }
}

// The paper has 2M(W-1)/(GW) for M/G bytes between W/G replicas, which is exactly 2M(W-G)/(GW). Ours: a reduce-scatter
// over all ranks, M(W-1)/(GW), and an all-gather between replicas, M(W-G)/(GW).
TEST(Communication, OfHybridShardOnGpusCrossesHostsAsInThePaper) {
  const double paper = 2 * kModel * (kRanks - 1) / (kGpusOfHost * kRanks);
  const double exact = 2 * kModel * (kRanks - kGpusOfHost) / (kGpusOfHost * kRanks);
  for (const char* strategy : {"hybrid-shard", "hybrid-shard-grad-op"}) {
    const Communication traffic = communication_of(strategy, {.gathers = 2, .reductions = 1});
    EXPECT_EQ(traffic.gathers.across, 0);
    EXPECT_DOUBLE_EQ(traffic.gathers.within, 2 * kModel * (kGpusOfHost - 1) / kGpusOfHost);
    EXPECT_DOUBLE_EQ(traffic.reductions.across, (paper + exact) / 2);
    EXPECT_LT(traffic.reductions.across, paper);
  }
}

// The formulas of docs/communication.md.
TEST(Communication, IsThatOfTheTable) {
  struct Row {
    const char* strategy;
    UnitUses uses;
    double on_gpus, across_on_gpus, across_on_cpus;
  };
  const double w = kRanks, g = kGpusOfHost, h = w / g, once = kModel * (w - 1) / w;
  const double between_replicas = kModel * (h - 1) / w, within_host = kModel * (g - 1) / g;
  const std::vector<Row> rows = {{"full-shard", {2, 1}, 3 * once, 3 * once / g, 3 * between_replicas},
                                 {"shard-grad-op", {1, 1}, 2 * once, 2 * once / g, 2 * between_replicas},
                                 {"shard-optimizer", {1, 1}, 2 * once, 2 * once / g, 2 * between_replicas},
                                 {"no-shard", {0, 1}, 2 * once, 2 * once / g, between_replicas + kModel * (w - g) / w},
                                 {"hybrid-shard",
                                  {2, 1},
                                  2 * within_host + once + between_replicas,
                                  once / g + between_replicas,
                                  2 * between_replicas},
                                 {"hybrid-shard-grad-op",
                                  {1, 1},
                                  within_host + once + between_replicas,
                                  once / g + between_replicas,
                                  2 * between_replicas}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.strategy);
    const Traffic gpus = communication_of(row.strategy, row.uses).sum();
    EXPECT_DOUBLE_EQ(gpus.sum(), row.on_gpus);
    EXPECT_DOUBLE_EQ(gpus.across, row.across_on_gpus);
    EXPECT_DOUBLE_EQ(communication_of(row.strategy, row.uses, false).sum().across, row.across_on_cpus);
  }
}

// On CPUs of several hosts, ranks of a host share gathered units and running sums.
TEST(Communication, OnCpusCrossesHostsOnceForEachHost) {
  const double hosts = kRanks / kGpusOfHost;
  const Communication full = communication_of("full-shard", {.gathers = 2, .reductions = 1}, false);
  EXPECT_EQ(full.gathers.within, 0);
  EXPECT_DOUBLE_EQ(full.gathers.across, 2 * kModel * (hosts - 1) / hosts / kGpusOfHost);
  EXPECT_DOUBLE_EQ(full.reductions.across, kModel * (hosts - 1) / kRanks);
  const Communication hybrid = communication_of("hybrid-shard", {.gathers = 2, .reductions = 1}, false);
  EXPECT_EQ(hybrid.gathers.sum(), 0);
  EXPECT_DOUBLE_EQ(hybrid.reductions.across, 2 * kModel * (kRanks - kGpusOfHost) / (kGpusOfHost * kRanks));
}

TEST(Communication, OfSixteenBitsIsHalf) {
  Sharding sharding = sharding_of("full-shard", 8);
  sharding.on_gpus = true;
  const std::vector<Unit> units = {{{.numel = 8 * 64}}};
  const double whole = communication(units, sharding, {{2, 1}})[0].sum().sum();
  sharding.param_bytes = sharding.reduce_bytes = 2;
  EXPECT_DOUBLE_EQ(communication(units, sharding, {{2, 1}})[0].sum().sum(), whole / 2);
}

TEST(Communication, OfOneRankIsNone) {
  const Communication alone = communication({{{.numel = 100}}}, {}, unit_uses(1, {}))[0];
  EXPECT_EQ(alone.sum().sum(), 0);
}

TEST(Communication, OfFrozenUnitsIsTheirGathers) {
  Sharding sharding = sharding_of("full-shard", 4);
  sharding.on_gpus = true;
  const Communication frozen = communication({{{.numel = 256, .is_trained = false}}}, sharding, {{2, 1}})[0];
  EXPECT_EQ(frozen.reductions.sum() + static_cast<double>(frozen.reductions_count), 0);
  EXPECT_DOUBLE_EQ(frozen.gathers.sum(), 2 * 4 * 192);
}

TEST(Communication, RefusesNonsense) {
  const auto refusal = [](const std::vector<Unit>& units, const Sharding& sharding, const std::vector<UnitUses>& uses) {
    return message_of<Error>([&] { communication(units, sharding, uses); });
  };
  EXPECT_THAT(refusal({{{1}}}, {}, {}), HasSubstr("found the uses of 0 units, expected those of 1"));
  EXPECT_THAT(refusal({{{1}}}, {}, {{-1, 0}}), HasSubstr("found -1 gathers"));
  EXPECT_THAT(refusal({{{1}}}, {}, {{0, INT64_MAX}}), HasSubstr("expected 0 to 1099511627776"));
  EXPECT_THAT(refusal({{{1}}}, {.ranks = 0}, {{0, 0}}), HasSubstr("found 0 ranks"));
  EXPECT_THAT(refusal({{{INT64_MAX}}}, {}, {{0, 0}}), HasSubstr("may not fit in 64 bits"));
}

// Each input is refused, or every number is finite and not negative.
TEST(Communication, OfRandomInputsIsRefusedOrFinite) {
  const std::vector<int64_t> numels = {-1, 0, 1, 63, 64, 65, 1'000'000'007, int64_t{1} << 50, INT64_MAX};
  const std::vector<int64_t> counts = {INT64_MIN, 0, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 64, INT64_MAX};
  std::mt19937 random(2);
  const auto one_of = [&](const std::vector<int64_t>& values) { return values[random() % values.size()]; };
  int planned = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<Unit> units(random() % 3);
    for (Unit& unit : units) unit.assign(random() % 3, {.numel = one_of(numels), .is_trained = random() % 2 == 0});
    const Sharding sharding{.ranks = one_of(counts),
                            .hosts = one_of(counts),
                            .group = one_of(counts),
                            .param_bytes = one_of({2, 4, 4, 9}),
                            .on_gpus = random() % 2 == 0};
    const std::vector<UnitUses> uses(units.size(), {one_of(counts), one_of(counts)});
    try {
      for (const Communication& traffic : communication(units, sharding, uses)) {
        ++planned;
        for (const double bytes :
             {traffic.gathers.within, traffic.gathers.across, traffic.reductions.within, traffic.reductions.across})
          ASSERT_TRUE(std::isfinite(bytes) && bytes >= 0) << bytes;
      }
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("xpected"));
    }
  }
  EXPECT_GT(planned, 100);
}

}  // namespace
}  // namespace fsdp::plan
