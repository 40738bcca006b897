#include "options/mesh_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/resolve.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunOptions on_mesh(int64_t ranks, int64_t pipeline, int64_t tensor) {
  RunOptions options;
  options.ranks = ranks;
  options.pipeline_parallel = pipeline;
  options.tensor_parallel = tensor;
  options.micro_batches = 3;
  return options;
}

TEST(MeshChoice, DealsMicroBatchesToDataRanks) {
  const RunOptions options = on_mesh(8, 2, 2);
  EXPECT_EQ(options.data_ranks(), 2);
  EXPECT_EQ(options.micro_batches_of_step(), 6);
  EXPECT_EQ(options.step_shape().ranks, 2);
  RunOptions resolved = options;
  resolved.target_tokens_per_step = 2 * 5 * options.batch * options.model.context;
  EXPECT_THAT(resolve(resolved, {.ranks = 8, .is_known = true}), IsEmpty());
  EXPECT_EQ(resolved.micro_batches, 5);
  EXPECT_EQ(resolved.tensor_parts, 2);
}

// A launcher may start another number of ranks than the command line has.
TEST(MeshChoice, ComparesWithTheRanksThatAreKnown) {
  RunOptions options = on_mesh(1, 2, 2);
  EXPECT_THAT(resolve(options, {.ranks = 1}), IsEmpty());
  EXPECT_THAT(resolve(options, {.ranks = 1, .ranks_are_known = true}), ElementsAre(HasSubstr("Use --ranks 4.")));
  EXPECT_THAT(resolve(options, {.ranks = 6, .is_known = true}), ElementsAre(HasSubstr("Use --ranks 4 or 8.")));
  EXPECT_THAT(resolve(options, {.ranks = 8, .is_known = true}), IsEmpty());
}

TEST(MeshChoice, KeepsTheTokensOfAStepOfOtherRanks) {
  RunOptions options = on_mesh(8, 1, 2);
  options.sequences_per_step = 8 * options.batch;
  EXPECT_THAT(resolve(options, {.ranks = 8, .is_known = true}), IsEmpty());
  EXPECT_EQ(options.micro_batches, 2);
}

TEST(MeshChoice, IsTold) {
  RunOptions options = on_mesh(8, 2, 2);
  EXPECT_EQ(mesh_text(options, "tensor and pipeline ranks on one host"),
            "2 x 2 x 2 ranks (data x pipeline x tensor), tensor and pipeline ranks on one host, matrices in 2 parts, 2 "
            "stages in the order one-forward-one-backward");
  EXPECT_EQ(mesh_text(on_mesh(4, 1, 1), ""), "4 x 1 x 1 ranks (data x pipeline x tensor)");
}

}  // namespace
}  // namespace trainer
