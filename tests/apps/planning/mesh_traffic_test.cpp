// Bytes by hand; planned_mesh_run_test.cpp compares the number of gathers and reductions with runs.
#include "planning/mesh_traffic.h"

#include <gtest/gtest.h>

#include "plan/unit_uses.h"
#include "planning/planned_mesh.h"
#include "planning/planned_sharding.h"
#include "planning/stage_blocks.h"

namespace trainer {
namespace {

using fsdp::plan::Mesh;
using fsdp::plan::MeshCoordinates;
using fsdp::plan::MeshPlaces;
using fsdp::plan::RankTraffic;

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
  const Mesh mesh = planned_mesh(options);
  return traffic_of_rank(options, on_gpus, mesh, MeshPlaces(mesh.sizes, hosts), at);
}

// Of one micro-batch.
double tensor_bytes(const RunOptions& options) {
  return traffic_of(options, {}).tensor.sum() / static_cast<double>(options.micro_batches);
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
  EXPECT_EQ(tensor_bytes(options), of_a_sum * (4 * 4 + 2));
  EXPECT_EQ(traffic_of(options, {}).tensor.sum(), 4 * of_a_sum * (4 * 4 + 2));
  options.activation_checkpoint = "all";  // and the first sum of each layer again
  EXPECT_EQ(tensor_bytes(options), of_a_sum * (4 * 5 + 2));
}

// A sum is a gather and a scatter of half the bytes each. A layer's two inputs are gathered again in the backward.
TEST(MeshTraffic, OfSlicesHasTheInputsOnceMore) {
  RunOptions options = traffic_options(1, 1, 2);
  options.sequence_parallel = true;
  const double of_a_part = kMessage / 2;
  EXPECT_EQ(tensor_bytes(options), of_a_part * (4 * (4 * 2 + 2) + 2 + 3));
}

TEST(MeshTraffic, OfPartsGrowsWithThem) {
  RunOptions options = traffic_options(1, 1, 2);
  options.tensor_parts = 4;
  const double of_a_sum = (2 + 1) * kMessage / 2;
  EXPECT_EQ(tensor_bytes(options), of_a_sum * (4 * 4 + 2));
}

TEST(MeshTraffic, LiesWithinOrAcrossHosts) {
  const RunOptions options = traffic_options(2, 2, 2);
  const RankTraffic one_host = traffic_of(options, {});
  EXPECT_EQ(one_host.sum().across, 0);
  EXPECT_EQ(one_host.data.gathers.sum(), 0);  // ranks of a host read each other's shards in place
  const RankTraffic two_hosts = traffic_of(options, {}, 2);
  EXPECT_EQ(two_hosts.pipeline.across + two_hosts.tensor.across, 0);
  EXPECT_EQ(two_hosts.data.reductions.within, 0);
  EXPECT_GT(two_hosts.data.reductions.across, 0);
  EXPECT_GT(two_hosts.data.gathers.across, 0);
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
  EXPECT_EQ(traffic.data.gathers_count, 3 * 4);  // two layers, norm and head, for each micro-batch
  EXPECT_EQ(traffic.data.reductions_count, 3 * 4);
  EXPECT_EQ(traffic.data.reductions.sum(), traffic.data.gathers.sum());
}

std::vector<fsdp::plan::UnitUses> uses_of(const RunOptions& options) {
  const Mesh mesh = planned_mesh(options);
  return unit_uses(mesh, units_of_rank(mesh, stage_blocks(options, 0), 0), planned_sharding(options), 0);
}

TEST(UnitUsesOfRuns, AreGatheredForEachPass) {
  RunOptions options = traffic_options(2, 2, 1);
  options.micro_batches = 1;
  // The first stage: its embeddings and two layers in two buffers.
  using Uses = std::vector<fsdp::plan::UnitUses>;
  EXPECT_EQ(uses_of(options), (Uses{{1, 1}, {1, 1}, {1, 1}}));
  options.buffers = 3;
  EXPECT_EQ(uses_of(options), (Uses{{1, 1}, {1, 1}, {1, 1}}));
  options.strategy = "no-shard";
  EXPECT_EQ(uses_of(options), (Uses{{0, 1}, {0, 1}, {0, 1}}));
}

TEST(UnitUsesOfRuns, OfSeveralLayersAreTheirUnits) {
  RunOptions options = traffic_options(2, 2, 1);
  options.micro_batches = 1;
  options.layers_per_unit = 2;
  using Uses = std::vector<fsdp::plan::UnitUses>;
  EXPECT_EQ(uses_of(options), (Uses{{1, 1}}));  // all layers of the stage
  options.model.layers = 8;
  options.stages = "7,5";  // the embeddings and five layers
  options.buffers = 4;
  EXPECT_EQ(uses_of(options), (Uses{{1, 1}, {1, 1}, {1, 1}, {1, 1}}));
}

}  // namespace
}  // namespace trainer
