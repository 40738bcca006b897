#include "planning/scaling_curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "fsdp/error.h"
#include "models/model_sizes.h"
#include "planning/hardware_file.h"
#include "planning/planned_time.h"

namespace trainer {
namespace {

constexpr double kInfinitely = std::numeric_limits<double>::infinity();
constexpr fsdp::plan::ClusterFacts kPerfectCluster{
    .spread = 0, .rank_failures = kInfinitely, .host_failures = kInfinitely};

RunOptions scaled_run(const char* strategy) {
  RunOptions options;
  options.model = models::config_of_size("llama3-8b").value();
  options.strategy = strategy;
  options.batch = 1;
  options.param_dtype = "bf16";
  options.dry_run = true;
  return options;
}

PlanTarget machine(const char* engine = "libfsdp") {
  PlanTarget target{.hardware = hardware_of("h100"), .engine = engine};
  target.memory = target.hardware.memory;
  return target;
}

// A network whose bandwidth does not depend on the ranks, and without latency.
PlanTarget machine_without_latency() {
  PlanTarget target = machine();
  fsdp::plan::Hardware& hardware = target.hardware;
  hardware.local_latency = hardware.local_rank_latency = hardware.rank_latency = hardware.host_latency = 0;
  hardware.network_bandwidth = 1e12;
  return target;
}

TEST(ScalingCurves, GoFromOneHostToTheMostRanks) {
  EXPECT_EQ(ranks_of_curve({.most_ranks = 64}, 8), (std::vector<int64_t>{8, 16, 32, 64}));
  EXPECT_EQ(ranks_of_curve({.most_ranks = 100}, 8), (std::vector<int64_t>{8, 16, 32, 64, 96}));
  EXPECT_EQ(ranks_of_curve({.most_ranks = 8}, 8), (std::vector<int64_t>{8}));
  EXPECT_EQ(ranks_of_curve({.most_ranks = 3}, 1), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(ranks_of_curve({.global_batch = 48}, 8), (std::vector<int64_t>{8, 16}));
  EXPECT_THROW(ranks_of_curve({.most_ranks = 7}, 8), fsdp::Error);
  EXPECT_THROW(ranks_of_curve({.global_batch = 12}, 8), fsdp::Error);
}

// Sums of n ranks carry (n - 1) / n of the bytes; nothing else grows.
TEST(ScalingCurves, AreFlatWithoutLatencySpreadAndFailures) {
  for (const char* strategy : {"full-shard", "no-shard"}) {
    const ScalingCurve curve = scaling_curve(machine_without_latency(), scaled_run(strategy),
                                             {.cluster = kPerfectCluster, .most_ranks = 65'536});
    ASSERT_EQ(curve.points.size(), 14u);
    for (const CurvePoint& point : curve.points)
      EXPECT_NEAR(point.job.rate() / curve.points[3].job.rate(), 1, 0.02) << strategy << " " << point.job.ranks;
    EXPECT_TRUE(curve.bends.empty()) << strategy;
  }
}

TEST(ScalingCurves, FallFromHostToHost) {
  for (const char* strategy : kStrategies) {
    const ScalingCurve curve = scaling_curve(machine(), scaled_run(strategy), {.most_ranks = 16'384});
    for (size_t i = 1; i < curve.points.size(); ++i)
      EXPECT_LT(curve.points[i].job.rate(), curve.points[i - 1].job.rate()) << strategy << " " << i;
  }
}

// The latency of the ring in closed form, once for a gather and once for a reduction.
TEST(ScalingCurves, LatencyGrowsWithTheRing) {
  const ScalingCurve curve = scaling_curve(machine(), scaled_run("full-shard"), {.most_ranks = 16'384});
  const LayerCollectives& last = curve.points.back().layer;
  ASSERT_EQ(last.all.size(), last.is_forward ? 1u : 2u);
  for (const fsdp::plan::UnitCollective& one : last.all) {
    EXPECT_EQ(one.ring.ranks, 16'384);
    EXPECT_EQ(one.ring.hosts, 2048);
  }
  EXPECT_NEAR(last.latency, static_cast<double>(last.all.size()) * (20e-6 + 16'383 * 4e-6 + 2048 * 10e-6), 1e-12);
}

// The device waits once the collectives of a layer take longer than the layer.
TEST(ScalingCurves, BendWhereCollectivesOutlastALayer) {
  const ScalingCurve curve =
      scaling_curve(machine(), scaled_run("full-shard"), {.cluster = kPerfectCluster, .most_ranks = 65'536});
  const auto waits = std::ranges::find(curve.bends, fsdp::plan::TimePart::Communication, &fsdp::plan::Bend::part);
  ASSERT_NE(waits, curve.bends.end());
  const LayerCollectives& before = curve.points[waits->point - 1].layer;
  const LayerCollectives& bent = curve.points[waits->point].layer;
  EXPECT_LT(before.seconds, 1.25 * before.compute);
  EXPECT_GT(bent.seconds, bent.compute);
}

TEST(ScalingCurves, SlowdownIsAPartOfExposedCommunication) {
  for (const char* strategy : kStrategies) {
    for (const CurvePoint& point : scaling_curve(machine(), scaled_run(strategy), {.most_ranks = 4096}).points) {
      EXPECT_GT(point.job.slowdown, 0) << strategy;
      EXPECT_LE(point.job.slowdown, point.job.step.exposed_communication) << strategy;
    }
  }
}

TEST(ScalingCurves, AreTheStepsOfPlans) {
  RunOptions options = scaled_run("hybrid-shard");
  const ScalingCurve curve = scaling_curve(machine(), options, {.cluster = kPerfectCluster, .most_ranks = 64});
  options.ranks = 64;
  PlanTarget target = machine();
  target.hosts = 8;
  EXPECT_EQ(curve.points.back().job.step.step, planned_step(target, options)->step);
  EXPECT_EQ(curve.points.back().job.seconds(), planned_step(target, options)->step);
}

// The waits for late ranks that the simulation of other engines has give way to those of the cluster.
TEST(ScalingCurves, CountWaitsForLateRanksOnce) {
  RunOptions options = scaled_run("full-shard");
  const ScalingCurve curve = scaling_curve(machine("fsdp1"), options, {.cluster = kPerfectCluster, .most_ranks = 1024});
  options.ranks = 1024;
  PlanTarget target = machine("fsdp1");
  target.hosts = 128;
  EXPECT_NEAR(planned_step(target, options)->step / curve.points.back().job.step.step, 1 + 7 * 0.005, 1e-9);
}

TEST(ScalingCurves, KeepAGlobalBatch) {
  RunOptions options = scaled_run("full-shard");
  options.batch = 4;
  const ScalingCurve curve = scaling_curve(machine(), options, {.most_ranks = 1024, .global_batch = 96});
  ASSERT_EQ(curve.points.size(), 3u);  // 8, 16 and 32 ranks
  for (const CurvePoint& point : curve.points) EXPECT_EQ(point.job.ranks * point.batch * point.micro_batches, 96);
  EXPECT_EQ(curve.points[0].batch, 4);
  EXPECT_EQ(curve.points[1].batch, 2);
  EXPECT_EQ(curve.points[2].batch, 1);
}

TEST(ScalingCurves, OfHostsHaveTheSameDevices) {
  const ScalingCurve curve = host_curve(machine(), scaled_run("full-shard"), {.devices = 48});
  ASSERT_EQ(curve.points.size(), 5u);  // 1, 2, 4, 8 and 16 ranks on each host
  for (const CurvePoint& point : curve.points) {
    EXPECT_EQ(point.job.ranks, 48);
    EXPECT_EQ(point.job.hosts * point.ranks_per_host, 48);
  }
  // One rank on each host shares no fast links, and has as many hosts in its ring as ranks.
  EXPECT_LT(curve.points.front().job.rate(), curve.points.back().job.rate());
  EXPECT_LT(curve.points.front().job.between_failures, curve.points.back().job.between_failures);
}

TEST(ScalingCurves, RefuseRunsWithoutATime) {
  RunOptions options = scaled_run("full-shard");
  options.offload = "optimizer";
  EXPECT_THROW(scaling_curve(machine(), options, {.most_ranks = 8}), fsdp::Error);
}

}  // namespace
}  // namespace trainer
