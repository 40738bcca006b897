#include "plan/mesh.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/blocks.h"
#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlanMesh, PlacesStagesInLoops) {
  const Mesh mesh = mesh_of({.pipeline = 2}, {3, 2, 2, 3}, "Interleaved", 4);
  EXPECT_THAT(mesh.stages_of(1), ElementsAre(1, 3));
  EXPECT_EQ(mesh.first_block(2), 5);
  EXPECT_EQ(mesh.end_block(3), 10);
  EXPECT_EQ(mesh.schedule.micro_batches, 4);
}

TEST(PlanMesh, IsIdleByTheTimesOfItsBlocks) {
  const Mesh mesh = mesh_of({.pipeline = 2}, {2, 1}, "OneForwardOneBackward", 3);
  const IdleShares equal = idle_shares(mesh, {{1, 1, 1}, {1, 1, 1}, {2, 2, 2}});
  EXPECT_NEAR(equal.mean, equal.equal_stages, 1e-12);
  EXPECT_NEAR(equal.equal_stages, 1.0 / 4, 1e-12);
  EXPECT_GT(idle_shares(mesh, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}).mean, equal.mean);
}

TEST(PlanMesh, RefusesNonsense) {
  const auto refusal = [](const MeshSizes& sizes, std::vector<int> cuts, int64_t micro_batches) {
    return message_of<Error>([&] { mesh_of(sizes, std::move(cuts), "OneAtATime", micro_batches); });
  };
  EXPECT_THAT(refusal({.tensor = -1}, {1}, 1), HasSubstr("1 data x 1 pipeline x -1 tensor ranks"));
  EXPECT_THAT(refusal({.pipeline = 2}, {1, 1, 1}, 1), HasSubstr("found 3 stages for a pipeline of 2 ranks"));
  EXPECT_THAT(refusal({}, {}, 1), HasSubstr("found 0 stages"));
  EXPECT_THAT(refusal({.pipeline = 2}, {0, 1}, 1), HasSubstr("found a stage of 0 blocks"));
  EXPECT_THAT(refusal({}, {INT32_MAX}, 1), HasSubstr("found 2147483647 blocks"));
  EXPECT_THAT(refusal({}, {1}, 0), HasSubstr("found 0 micro-batches"));
  EXPECT_THAT(refusal({}, {1}, INT64_MAX), HasSubstr("expected 1 to 4194304"));
  EXPECT_THAT(message_of<Error>([] { mesh_of({}, {1}, "GPipe", 1); }), HasSubstr("expected one of OneAtATime"));
  const Mesh mesh = mesh_of({}, {2}, "OneAtATime", 1);
  EXPECT_THAT(message_of<Error>([&] { idle_shares(mesh, {{}}); }), HasSubstr("found times of 1 blocks, expected 2"));
  EXPECT_THAT(message_of<Error>([&] { units_of_rank(mesh, {{}}, 0); }), HasSubstr("found 1 blocks, expected 2"));
  EXPECT_THAT(message_of<Error>([&] { units_of_rank(mesh, {{}, {}}, 1); }), HasSubstr("found pipeline rank 1"));
}

TEST(RankUnits, AreTheRootAndTheLayersOfTheRanksStages) {
  const Mesh mesh = mesh_of({.pipeline = 2}, {2, 2}, "OneForwardOneBackward", 1);
  const std::vector<Block> blocks = {{.parameters = {{1}}, .is_lookup = true},
                                     {.parameters = {{2}}, .is_layer = true},
                                     {.parameters = {{3}}, .is_layer = true},
                                     {.parameters = {{4}, {5}}}};
  const RankUnits first = units_of_rank(mesh, blocks, 0), last = units_of_rank(mesh, blocks, 1);
  EXPECT_THAT(first.units, ElementsAre(Unit{{1}}, Unit{{2}}));
  EXPECT_THAT(first.of_stage[0].forward, ElementsAre(0, 1));
  EXPECT_THAT(first.of_stage[0].backward, ElementsAre(1));
  EXPECT_THAT(last.units, ElementsAre(Unit{{4}, {5}}, Unit{{3}}));
  EXPECT_THAT(last.of_stage[1].forward, ElementsAre(1, 0));
  EXPECT_THAT(last.of_stage[1].backward, ElementsAre(0, 1));
}

}  // namespace
}  // namespace fsdp::plan
