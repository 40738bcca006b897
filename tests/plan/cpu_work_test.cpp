#include "plan/cpu_work.h"

#include <gtest/gtest.h>

#include "plan/libfsdp_step.h"

namespace fsdp::plan {
namespace {

CpuShare share_for(int64_t ranks, int64_t element = 4) {
  return {.ranks = ranks,
          .threads = 1,
          .element = element,
          .products = {{100, 1e10}},
          .backward_products = {{100, 1e10}},
          .passes = {{1000, 1e9}},
          .attention = {{100, 1e10}},
          .backward_attention = {{100, 1e10}},
          .activation_rate = 1e9,
          .backward_activation_rate = 1e9,
          .norm_rate = 1e9,
          .backward_norm_rate = 1e9,
          .logit_rate = 1e9,
          .update_rate = 1e8,
          .operator_seconds = 1e-6,
          .backward_operator_seconds = 1e-6,
          .step_factors = {{100, 1}}};
}

Hardware two_cores() {
  return {.name = "two cores",
          .kind = DeviceKind::Cpu,
          .local_latency = 1e-6,
          .local_bandwidth = 1e10,
          .reduce_scatters = {{2, {{1e3, 1e-6}, {1e9, 1}}}},
          .all_reduces = {{2, {{4, 1e-6}, {1e9, 1}}}},
          .shares = {share_for(1), share_for(2)}};
}

ShardedRun run_on(int64_t ranks) {
  return {.shape = {.layers = 4,
                    .width = 256,
                    .heads = 4,
                    .key_value_heads = 4,
                    .head_width = 64,
                    .mlp_width = 1024,
                    .vocabulary = 256,
                    .positions = 128},
          .pass = {.batch = 4, .sequence = 128, .element = 4},
          .ranks = ranks,
          .group = ranks};
}

double seconds_of(const ShardedRun& run, const Hardware& hardware, size_t strategy = 0) {
  return libfsdp_step({.run = run, .strategy = strategy}, {}, hardware).step;
}

TEST(CpuShares, RatesBetweenMeasuredSizesAreInterpolated) {
  const RatesBySize rates = {{10, 1}, {1000, 100}};
  EXPECT_DOUBLE_EQ(rate_at(rates, 1), 1);
  EXPECT_DOUBLE_EQ(rate_at(rates, 10), 1);
  EXPECT_DOUBLE_EQ(rate_at(rates, 100), 10);
  EXPECT_DOUBLE_EQ(rate_at(rates, 1e9), 100);
}

TEST(CpuShares, TheNearestNumberOfRanksCounts) {
  const std::vector<CpuShare> shares = {share_for(8), share_for(2), share_for(1), share_for(4, 2)};
  EXPECT_EQ(share_of(shares, 1, 4)->ranks, 1);
  EXPECT_EQ(share_of(shares, 2, 4)->ranks, 2);
  EXPECT_EQ(share_of(shares, 3, 4)->ranks, 8);
  EXPECT_EQ(share_of(shares, 20, 4)->ranks, 8);
  EXPECT_EQ(share_of(shares, 1, 2)->ranks, 4);
  EXPECT_EQ(share_of({}, 1, 4), nullptr);
}

TEST(CpuSteps, OfOneRankAreTheirOperators) {
  const ShardedRun run = run_on(1);
  const ShardedStep step = cpu_step(run, share_for(1), two_cores());
  double sum = step.root.forward.device + step.root.backward.device + step.head.device + step.update_seconds;
  for (const TimedUnit& unit : step.units) sum += unit.forward.device + unit.backward.device;
  EXPECT_NEAR(seconds_of(run, two_cores()), sum, 1e-9);
  // A layer has 12 w^2 parameters in products, and attention.
  const double products = 2.0 * 12 * 256 * 256 * 512 / 1e10, attention = 4.0 * 512 * 128 * 256 / 1e10;
  EXPECT_GT(step.units[0].forward.device, products + attention);
  EXPECT_LT(step.units[0].forward.device, 1.2 * (products + attention));
}

TEST(CpuSteps, OfTwoRanksAddReductionsAndHalveTheUpdate) {
  const Hardware hardware = two_cores();
  const ShardedStep one = cpu_step(run_on(1), share_for(1), hardware),
                    two = cpu_step(run_on(2), share_for(2), hardware);
  EXPECT_EQ(one.units[0].reduce, 0);
  EXPECT_GT(two.units[0].reduce, 0);
  EXPECT_EQ(two.units[0].gather, 0);
  EXPECT_NEAR(two.update_seconds, one.update_seconds / 2, 2e-6);
  EXPECT_GT(seconds_of(run_on(2), hardware), seconds_of(run_on(2), [&] {
              Hardware faster = hardware;
              faster.reduce_scatters = {{2, {{1e3, 1e-9}, {1e9, 1e-3}}}};
              return faster;
            }()));
}

TEST(CpuSteps, OfUnitsOfSeveralLayersHaveTheirPassesInOrder) {
  ShardedRun run = run_on(2);
  run.recomputed = 1;
  const ShardedStep layers = cpu_step(run, share_for(2), two_cores());
  ASSERT_EQ(layers.units.size(), 4u);
  run.layers_per_unit = 3;
  const ShardedStep units = cpu_step(run, share_for(2), two_cores());
  ASSERT_EQ(units.units.size(), 2u);
  EXPECT_EQ(units.units[0].layers, 3);
  EXPECT_EQ(units.units[1].layers, 1);
  EXPECT_DOUBLE_EQ(units.units[0].forward.device, 3 * layers.units[0].forward.device);
  EXPECT_DOUBLE_EQ(units.units[0].backward.device,
                   layers.units[0].backward.device + 2 * layers.units[1].backward.device);
  EXPECT_EQ(units.units[1].backward.device, layers.units[3].backward.device);
  // One message in place of three.
  EXPECT_GT(units.units[0].reduce, layers.units[0].reduce);
  EXPECT_LT(units.units[0].reduce, 3 * layers.units[0].reduce);
  EXPECT_EQ(units.units[1].reduce, layers.units[0].reduce);
  // A unit of all layers is the whole model.
  run.layers_per_unit = 4;
  const ShardedStep whole = cpu_step(run, share_for(2), two_cores());
  EXPECT_EQ(whole.units[0].reduce, 0);
  EXPECT_GT(whole.root.reduce, layers.root.reduce + 3 * layers.units[0].reduce);
}

TEST(CpuSteps, ThatRunLayersAgainTakeTheirForwardTwiceButForItsEnd) {
  ShardedRun run = run_on(1);
  const double kept = seconds_of(run, two_cores());
  const double forward = cpu_step(run, share_for(1), two_cores()).units[0].forward.device;
  run.recomputed = 3;
  EXPECT_LT(seconds_of(run, two_cores()), kept + 3 * forward);
  EXPECT_GT(seconds_of(run, two_cores()), kept + 1.8 * forward);  // a third of the products is not repeated
  run.recomputed = 0;
  run.is_selective = true;
  EXPECT_GT(seconds_of(run, two_cores()), kept);
  EXPECT_LT(seconds_of(run, two_cores()), kept + 3 * forward);
}

TEST(CpuSteps, FollowTheMeasuredFactor) {
  Hardware hardware = two_cores();
  const ShardedRun run = run_on(1);
  const double plain = seconds_of(run, hardware), update = cpu_step(run, share_for(1), hardware).update_seconds;
  hardware.shares[0].step_factors = {{256, 1.5}};
  EXPECT_NEAR(seconds_of(run, hardware) - update, 1.5 * (plain - update), 1e-9);
}

}  // namespace
}  // namespace fsdp::plan
