// Bytes by hand; planned_mesh_run_test.cpp compares the number of gathers and reductions with runs.
#include "planning/mesh_traffic.h"

#include <gtest/gtest.h>

#include "planning/tensor_traffic.h"
#include "planning/unit_uses.h"

namespace trainer {
namespace {

// Of 2 x 3 tokens and 8 features.
constexpr double kMessage = 4 * 2 * 3 * 8;

RunOptions traffic_options(int64_t data, int64_t pipeline, int64_t tensor) {
  RunOptions options;
  options.model = {.vocabulary = 10, .context = 3, .width = 8, .layers = 4, .heads = 4};
  options.batch = 2;
  options.micro_batches = 4;
  options.ranks = data * pipeline * tensor;
  options.pipeline_parallel = pipeline;
  options.tensor_parallel = tensor;
  options.stages = pipeline == 2 ? "4,4" : "auto";
  return options;
}

RankTraffic traffic_of(const RunOptions& options, const MeshCoordinates& at, int64_t hosts = 1, bool on_gpus = false) {
  const PlannedMesh mesh = planned_mesh(options);
  return traffic_of_rank(options, on_gpus, mesh, MeshPlaces(mesh, hosts), at);
}

TEST(MeshTraffic, OfStagesIsATensorForEachMicroBatchAndNeighbour) {
  const RunOptions options = traffic_options(1, 2, 1);
  EXPECT_EQ(traffic_of(options, {.pipeline = 0}).pipeline.sum(), 4 * kMessage);  // gradients
  EXPECT_EQ(traffic_of(options, {.pipeline = 1}).pipeline.sum(), 4 * kMessage);  // activations
  const RankTraffic three = traffic_of(traffic_options(1, 3, 1), {.pipeline = 1});
  EXPECT_EQ(three.pipeline.sum(), 2 * 4 * kMessage);
  RunOptions loops = traffic_options(1, 2, 1);
  loops.pipeline_schedule = "interleaved";
  loops.stages_per_rank = 2;
  loops.stages = "auto";
  EXPECT_EQ(traffic_of(loops, {.pipeline = 0}).pipeline.sum(), 3 * 4 * kMessage);
}

TEST(MeshTraffic, OfATiedHeadIsAGradientForEachMicroBatchAndOneBack) {
  RunOptions options = traffic_options(1, 2, 1);
  EXPECT_EQ(traffic_of(options, {.pipeline = 0}).tied.sum(), 4 * 4 * 10 * 8);
  EXPECT_EQ(traffic_of(options, {.pipeline = 1}).tied.sum(), 4 * 10 * 8);
  options.model.tied_embeddings = false;
  EXPECT_EQ(traffic_of(options, {.pipeline = 0}).tied.sum(), 0);
}

// A layer has two sums in a forward and two in a backward; the embedding one, and the head one.
TEST(MeshTraffic, OfDividedLayersIsThatOfTheirSums) {
  RunOptions options = traffic_options(1, 1, 2);
  const double of_a_sum = 2 * kMessage / 2;  // 2 (n - 1) / n
  EXPECT_EQ(tensor_bytes(options, planned_mesh(options), 0), of_a_sum * (4 * 4 + 2));
  EXPECT_EQ(traffic_of(options, {}).tensor.sum(), 4 * of_a_sum * (4 * 4 + 2));
  options.activation_checkpoint = "all";  // and the first sum of each layer again
  EXPECT_EQ(tensor_bytes(options, planned_mesh(options), 0), of_a_sum * (4 * 5 + 2));
}

// A sum is a gather and a scatter of half the bytes each. A layer's two inputs are gathered again in the backward.
TEST(MeshTraffic, OfSlicesHasTheInputsOnceMore) {
  RunOptions options = traffic_options(1, 1, 2);
  options.sequence_parallel = true;
  const double of_a_part = kMessage / 2;
  EXPECT_EQ(tensor_bytes(options, planned_mesh(options), 0), of_a_part * (4 * (4 * 2 + 2) + 2 + 3));
}

TEST(MeshTraffic, OfPartsGrowsWithThem) {
  RunOptions options = traffic_options(1, 1, 2);
  options.tensor_parts = 4;
  const double of_a_sum = (2 + 1) * kMessage / 2;
  EXPECT_EQ(tensor_bytes(options, planned_mesh(options), 0), of_a_sum * (4 * 4 + 2));
}

TEST(MeshTraffic, LiesWithinOrAcrossHosts) {
  const RunOptions options = traffic_options(2, 2, 2);
  const RankTraffic one_host = traffic_of(options, {});
  EXPECT_EQ(one_host.sum().across, 0);
  EXPECT_EQ(one_host.gathers.sum(), 0);  // ranks of a host read each other's shards in place
  const RankTraffic two_hosts = traffic_of(options, {}, 2);
  EXPECT_EQ(two_hosts.pipeline.across + two_hosts.tensor.across, 0);
  EXPECT_EQ(two_hosts.reductions.within, 0);
  EXPECT_GT(two_hosts.reductions.across, 0);
  EXPECT_GT(two_hosts.gathers.across, 0);
  const RankTraffic eight_hosts = traffic_of(options, {}, 8);
  EXPECT_EQ(eight_hosts.sum().within, 0);
  EXPECT_EQ(eight_hosts.tensor.across, one_host.tensor.within);
}

// On GPUs a gather brings the other rank's shards: half of each unit.
TEST(MeshTraffic, OfUnitsIsTheirSize) {
  RunOptions options = traffic_options(2, 2, 1);
  options.strategy = "shard-grad-op";
  options.model.tied_embeddings = false;
  const RankTraffic traffic = traffic_of(options, {.pipeline = 1}, 1, true);
  EXPECT_EQ(traffic.gathers_count, 3 * 4);  // two layers, norm and head, for each micro-batch
  EXPECT_EQ(traffic.reductions_count, 3 * 4);
  EXPECT_EQ(traffic.reductions.sum(), traffic.gathers.sum());
}

TEST(UnitUses, AreGatheredForEachPass) {
  RunOptions options = traffic_options(2, 2, 1);
  options.micro_batches = 1;
  // The first stage: its embeddings and two layers in two buffers.
  EXPECT_EQ(unit_times(planned_mesh(options), options, 0).gathers, (std::vector<int64_t>{1, 1, 1}));
  options.buffers = 3;
  EXPECT_EQ(unit_times(planned_mesh(options), options, 0).gathers, (std::vector<int64_t>{1, 1, 1}));
  options.strategy = "no-shard";
  EXPECT_EQ(unit_times(planned_mesh(options), options, 0).gathers, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(unit_times(planned_mesh(options), options, 0).reductions, (std::vector<int64_t>{1, 1, 1}));
}

}  // namespace
}  // namespace trainer
