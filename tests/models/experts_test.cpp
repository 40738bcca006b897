// Mixtures of experts: each rank's data chooses the parts of a block that run there.
#include <gmock/gmock.h>

#include <string>

#include "support/experts.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"
#include "support/variable.h"

namespace fsdp {
namespace {

using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using testing_models::chosen_experts;
using testing_models::every_strategy;
using testing_models::expect_same_bits;
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

// Shows that ranks in the test above differ.
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

UnitPolicy each_expert() {
  return units_by(
      [](const std::string& name, const torch::nn::Module&) { return name.find(".experts.") != std::string::npos; });
}

// At any time ranks use other units than their peers, and reduce some that these will not use.
void train_with_expert_units(World& world) {
  testing_models::Expected expected(make_experts, {.steps = 6, .micro_batches = 2 * world.size()});
  for (const auto& [strategy, options] : every_strategy(world.size())) {
    SCOPED_TRACE(strategy);
    Options with = options;
    with.units = each_expert();
    with.buffers = 2;
    expect_same_bits(expected, world, with);
  }
}

class ExpertUnits : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ExpertUnits, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

TEST_P(ExpertUnits, InSharedMemoryHoldNoRankUp) {
  EXPECT_GT(each_expert().choose(*make_experts().module).size(), static_cast<size_t>(kExpertBlocks));
  run_ranks(Job{GetParam(), "shm"}, train_with_expert_units);
}

TEST_P(ExpertUnits, ThatAreCopiedIntoTwoBuffersHoldNoRankUp) {
  const testing::CopyingGathers copying;
  run_ranks(Job{GetParam(), "shm"}, train_with_expert_units);
}

}  // namespace
}  // namespace fsdp
