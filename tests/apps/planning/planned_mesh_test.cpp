#include "planning/planned_mesh.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/block_costs.h"
#include "planning/stage_blocks.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

RunOptions mesh_options(int64_t data, int64_t pipeline, int64_t tensor) {
  RunOptions options;
  options.model = {.vocabulary = 67, .context = 16, .width = 64, .layers = 6, .heads = 4};
  options.ranks = data * pipeline * tensor;
  options.pipeline_parallel = pipeline;
  options.tensor_parallel = tensor;
  options.micro_batches = 4;
  return options;
}

TEST(PlannedMesh, HasEvenStages) {
  const fsdp::plan::Mesh mesh = planned_mesh(mesh_options(2, 3, 2));
  EXPECT_EQ(mesh.sizes.data, 2);
  // Embeddings and two layers, two layers, two layers with norm and head.
  EXPECT_THAT(mesh.cuts, ElementsAre(4, 2, 4));
  EXPECT_EQ(mesh.first_block(2), 6);
  EXPECT_EQ(mesh.schedule.ranks.size(), 3u);
}

TEST(PlannedMesh, HasTheStagesThatAreGiven) {
  RunOptions options = mesh_options(1, 2, 1);
  options.stages_per_rank = 2;
  options.pipeline_schedule = "interleaved";
  options.stages = "3,2*2,3";
  const fsdp::plan::Mesh mesh = planned_mesh(options);
  EXPECT_THAT(mesh.cuts, ElementsAre(3, 2, 2, 3));
  EXPECT_THAT(mesh.stages_of(1), ElementsAre(1, 3));
  options.stages = "3,2*2,4";
  EXPECT_THROW(planned_mesh(options), fsdp::Error);
}

// Equal stages are idle by the formula; with a large head all others wait for it.
TEST(PlannedMesh, IsIdleByTheOperationsOfItsStages) {
  RunOptions options = mesh_options(1, 3, 1);
  const fsdp::plan::IdleShares equal = idle_shares(planned_mesh(options), options);
  EXPECT_NEAR(equal.equal_stages, 2.0 / 6, 1e-12);
  EXPECT_NEAR(equal.mean, equal.equal_stages, 0.02);
  options.model.vocabulary = 5000;
  const fsdp::plan::IdleShares uneven = idle_shares(planned_mesh(options), options);
  EXPECT_GT(uneven.mean, equal.mean + 0.1);
  EXPECT_LT(uneven.of_rank[2], uneven.of_rank[0]);
}

// A second forward makes a layer's backward longer, and not the head's.
TEST(PlannedMesh, CountsSecondForwards) {
  RunOptions options = mesh_options(1, 2, 1);
  options.stages = "8,2";
  const double before = idle_shares(planned_mesh(options), options).mean;
  options.activation_checkpoint = "all";
  EXPECT_GT(idle_shares(planned_mesh(options), options).mean, before);
}

std::vector<fsdp::plan::Unit> units_of(const fsdp::plan::Mesh& mesh, const RunOptions& options, int pipeline_rank,
                                       int64_t tensor_rank) {
  return units_of_rank(mesh, stage_blocks(options, tensor_rank), pipeline_rank).units;
}

TEST(StageUnits, AreThoseOfTheBlocks) {
  const RunOptions options = mesh_options(2, 3, 1);
  const fsdp::plan::Mesh mesh = planned_mesh(options);
  const auto first = units_of(mesh, options, 0, 0), middle = units_of(mesh, options, 1, 0),
             last = units_of(mesh, options, 2, 0);
  EXPECT_THAT(first, SizeIs(3));
  EXPECT_THAT(middle, SizeIs(2));
  EXPECT_THAT(last, SizeIs(3));
  EXPECT_EQ(numel_of(first[0]), (67 + 16) * 64);
  EXPECT_EQ(numel_of(last[0]), 2 * 64 + 67 * 64);  // a copy of the tied embedding
  EXPECT_EQ(middle[0], first[1]);
}

TEST(StageUnits, HaveTheCopyOfATiedHeadInPipelinesAlone) {
  const RunOptions options = mesh_options(2, 1, 2);
  const auto units = units_of(planned_mesh(options), options, 0, 1);
  EXPECT_EQ(numel_of(units[0]), (33 + 16 + 2) * 64);  // the second of two ranks has 33 of 67 entries
}

TEST(StageUnits, FreezeAHeadWithItsEmbedding) {
  RunOptions options = mesh_options(1, 2, 1);
  options.freeze = "transformer.wte.weight";
  const fsdp::plan::Mesh mesh = planned_mesh(options);
  EXPECT_FALSE(units_of(mesh, options, 0, 0)[0][0].is_trained);
  EXPECT_FALSE(units_of(mesh, options, 1, 0)[0].back().is_trained);
}

}  // namespace
}  // namespace trainer
