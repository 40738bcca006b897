// Large meshes, and contradictions. tests/apps/planning/mesh_traffic_test.cpp has the bytes of models.
#include "plan/mesh_traffic.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

std::vector<Block> blocks_of_layers(size_t layers) {
  const PassExchanges exchanges = layer_exchanges(2, 2, {});
  std::vector<Block> blocks(layers,
                            {.parameters = Unit(12, {.numel = 1'000'000}), .is_layer = true, .exchanges = exchanges});
  blocks.insert(blocks.begin(),
                {.parameters = {{.numel = 50'000'000}}, .is_lookup = true, .exchanges = lookup_exchanges({})});
  blocks.push_back({.parameters = {{.numel = 50'000'000}}, .exchanges = head_exchanges({})});
  return blocks;
}

// All of the ranks of a mesh: of the first tensor rank, which stands for the others.
Traffic sum_of(const MeshSizes& sizes, int64_t hosts, std::vector<int> cuts, bool on_gpus) {
  const Mesh mesh = mesh_of(sizes, std::move(cuts), "OneForwardOneBackward", 16);
  const MeshPlaces places(sizes, hosts);
  Sharding sharding = sharding_of("full-shard", sizes.data);
  sharding.on_gpus = on_gpus;
  const MeshRun run{.mesh = mesh,
                    .blocks = blocks_of_layers(100),
                    .sharding = sharding,
                    .message_bytes = 1'000'000,
                    .tensors = {.ranks = sizes.tensor, .bytes = 2'000'000}};
  Traffic sum;
  for (int64_t pipeline = 0; pipeline < sizes.pipeline; ++pipeline) {
    const StageTraffic stage(run, places, pipeline, 0);
    for (int64_t data = 0; data < sizes.data; ++data) {
      const Traffic rank = stage.of(data).sum();
      sum.within += rank.within;
      sum.across += rank.across;
    }
  }
  return sum;
}

// A rank of a ring receives all but its own part: the ranks together (n - 1) times the tensor.
TEST(StageTraffic, OfAHundredThousandRanksIsPlannedAtOnce) {
  const int64_t ranks = 100'000, buffers = 2;
  const Traffic sum = sum_of({.data = ranks}, ranks / 8, {102}, true);
  // Slices are whole multiples of 64 elements: 128 of a layer and 1,024 of the rest.
  const double layer = 128, root = 1024, layers = 100, micro_batches = 16;
  const double gathers = micro_batches * (2 * layers * layer - (buffers - 1) * layer + 2 * root);
  const double reductions = micro_batches * (layers * layer + root);
  EXPECT_NEAR(sum.sum(), 4.0 * ranks * (ranks - 1) * (gathers + reductions), 1e-9 * sum.sum());
  EXPECT_NEAR(sum.across, sum.sum() / 8, 1e-9 * sum.sum());
}

TEST(StageTraffic, OfTenThousandRanksInStagesIsPlannedAtOnce) {
  const Traffic sum = sum_of({.data = 250, .pipeline = 5, .tensor = 8}, 1250, {20, 20, 22, 20, 20}, false);
  EXPECT_GT(sum.within, 0);
  EXPECT_GT(sum.across, 0);
}

TEST(StageTraffic, OfTensorRanksLiesOnTheirHosts) {
  const MeshSizes sizes{.tensor = 4};
  const Mesh mesh = mesh_of(sizes, {1}, "OneAtATime", 2);
  const MeshRun run{.mesh = mesh,
                    .blocks = {{.parameters = {{.numel = 1}}, .is_layer = true, .exchanges = {.forward = {.sums = 1}}}},
                    .sharding = {},
                    .tensors = {.ranks = 4, .bytes = 100}};
  const Traffic traffic = StageTraffic(run, MeshPlaces(sizes, 2), 0, 3).of(0).tensor;
  EXPECT_DOUBLE_EQ(traffic.sum(), 2 * 2 * 100 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(traffic.within, traffic.sum() / 3);
}

TEST(StageTraffic, RefusesContradictions) {
  const MeshSizes sizes{.data = 2, .pipeline = 2};
  const Mesh mesh = mesh_of(sizes, {1, 1}, "OneAtATime", 1);
  const MeshPlaces places(sizes, 1);
  const MeshRun run{.mesh = mesh,
                    .blocks = std::vector<Block>(2, {.parameters = {{.numel = 1}}, .is_layer = true}),
                    .sharding = sharding_of("full-shard", 2)};
  const auto refusal = [&](const MeshRun& changed, int64_t pipeline = 0, int64_t tensor = 0, int64_t data = 0) {
    return message_of<Error>([&] { StageTraffic(changed, places, pipeline, tensor).of(data); });
  };
  EXPECT_EQ(refusal(run), "no error");
  EXPECT_THAT(refusal(run, 2), HasSubstr("found pipeline rank 2"));
  EXPECT_THAT(refusal(run, 0, -1), HasSubstr("tensor rank -1"));
  EXPECT_THAT(refusal(run, 0, 0, 2), HasSubstr("found data rank 2, expected less than 2"));
  MeshRun others = run;
  others.sharding.ranks = 4;
  EXPECT_THAT(refusal(others), HasSubstr("found a sharding over 4 ranks, expected 2"));
  MeshRun fewer = run;
  fewer.blocks.pop_back();
  EXPECT_THAT(refusal(fewer), HasSubstr("found 1 blocks, expected 2"));
  MeshRun divided = run;
  divided.tensors.ranks = 2;
  EXPECT_THAT(refusal(divided), HasSubstr("found tensors of 2 ranks"));
  MeshRun negative = run;
  negative.message_bytes = -1;
  EXPECT_THAT(refusal(negative), HasSubstr("found messages of -1 bytes"));
}

// Each input is refused, or every number is finite and not negative.
TEST(StageTraffic, OfRandomInputsIsRefusedOrFinite) {
  std::mt19937 random(3);
  const auto one_of = [&](const std::vector<int64_t>& values) { return values[random() % values.size()]; };
  const std::vector<int64_t> counts = {-1, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, INT64_MAX};
  const char* schedules[] = {
      "OneAtATime", "AllForwardAllBackward", "OneForwardOneBackward", "Interleaved", "ZeroBubble", "GPipe"};
  const char* strategies[] = {"full-shard",   "shard-grad-op",        "shard-optimizer", "no-shard",
                              "hybrid-shard", "hybrid-shard-grad-op", "zero-3"};
  int planned = 0;
  for (int i = 0; i < 20'000; ++i) {
    try {
      const MeshSizes sizes{.data = one_of(counts), .pipeline = one_of(counts), .tensor = one_of(counts)};
      std::vector<int> cuts(random() % 5);
      std::vector<Block> blocks;
      for (int& cut : cuts) {
        cut = static_cast<int>(random() % 4);
        for (int block = 0; block < cut; ++block)
          blocks.push_back({.parameters = Unit(random() % 3, {.numel = one_of({0, 1, 64, 1'000'000})}),
                            .is_layer = random() % 2 == 0,
                            .is_lookup = random() % 2 == 0,
                            .exchanges = layer_exchanges(2, 2, {.slices = random() % 2 == 0})});
      }
      const Mesh mesh = mesh_of(sizes, cuts, schedules[random() % 6], one_of(counts));
      const MeshPlaces places(sizes, one_of(counts));
      Sharding sharding = sharding_of(strategies[random() % 7], one_of({sizes.data, sizes.data, 2}), one_of({1, 1, 2}));
      sharding.on_gpus = random() % 2 == 0;
      const MeshRun run{.mesh = mesh,
                        .blocks = blocks,
                        .sharding = sharding,
                        .message_bytes = static_cast<double>(one_of({0, 1, 1 << 30})),
                        .tensors = {.ranks = one_of({sizes.tensor, sizes.tensor, 3}), .bytes = 100},
                        .tied = {.numel = one_of({0, 7, INT64_MAX}), .element_bytes = one_of({0, 2, 4, INT64_MAX})}};
      const Traffic sum =
          StageTraffic(run, places, one_of({0, 0, 1, -1}), one_of({0, 0, 1})).of(one_of({0, 0, 1})).sum();
      ASSERT_TRUE(std::isfinite(sum.within) && sum.within >= 0) << sum.within;
      ASSERT_TRUE(std::isfinite(sum.across) && sum.across >= 0) << sum.across;
      ++planned;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), ::testing::AnyOf(HasSubstr("xpected"), HasSubstr("choose")));
    }
  }
  EXPECT_GT(planned, 100);
}

}  // namespace
}  // namespace fsdp::plan
