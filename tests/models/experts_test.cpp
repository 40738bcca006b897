// Mixtures of experts: each rank's data chooses the parts of a block that run there.
#include <gmock/gmock.h>

#include "support/experts.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::chosen_experts;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::kExpertBlocks;
using testing_models::make_experts;
using testing_models::TestModel;

class Experts : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Experts, ::testing::Values(2, 3, 4), ::testing::PrintToStringParamName());

TEST_P(Experts, ThatEachRanksDataChoosesHaveTheBitsOfOneProcess) {
  run_ranks(GetParam(), [](World& world) {
    for (int64_t accumulation : {1, 2}) {
      expect_same_bits_with_every_strategy(make_experts, world,
                                           {.steps = 6, .micro_batches = accumulation * world.size(), .clip = 0.1});
    }
  });
}

// What makes the test above one of ranks that differ.
TEST(ExpertsChosen, OfTheFirstBlockDifferByMicroBatch) {
  EXPECT_NE(chosen_experts(0), chosen_experts(1));
  EXPECT_NE(chosen_experts(0), chosen_experts(2));
}

TEST_P(Experts, AreInTheUnitOfTheirBlock) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_experts();
    auto sharded = shard(*model.module, world);
    model.loss(world.rank()).backward();
    EXPECT_EQ(sharded.communication().reductions, kExpertBlocks);
    // In the backward the last two are still there, and the first one's input wants no gradient.
    EXPECT_EQ(sharded.communication().gathers, kExpertBlocks);
  });
}

}  // namespace
}  // namespace fsdp
