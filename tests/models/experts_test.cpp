// Mixtures of experts: each rank's data chooses the parts of a block that run there.
#include <gmock/gmock.h>

#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::TestModel;
using testing_models::values_for;
using torch::Tensor;

constexpr int64_t kWidth = 12, kExperts = 4, kBlocks = 3, kTokens = 3;  // a batch leaves an expert of each block out

// Of the batch's tokens, each is seen by the expert that the gate prefers (Fedus and others,
// https://arxiv.org/abs/2101.03961); an expert that no token prefers is not called.
struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : gate(register_module("gate", torch::nn::Linear(kWidth, kExperts))),
        experts(register_module("experts", torch::nn::ModuleList())) {
    for (int64_t i = 0; i < kExperts; ++i) experts->push_back(torch::nn::Linear(kWidth, kWidth));
  }

  // [tokens]
  Tensor choice(const Tensor& x) { return gate(x).argmax(-1); }

  Tensor forward(const Tensor& x) {
    const Tensor weights = torch::softmax(gate(x), -1), chosen = weights.argmax(-1);
    Tensor result = x;
    for (int64_t i = 0; i < kExperts; ++i) {
      const Tensor tokens = torch::nonzero(chosen == i).view(-1);
      if (tokens.numel() == 0) continue;
      const Tensor seen = torch::tanh(experts->at<torch::nn::LinearImpl>(i).forward(x.index_select(0, tokens)));
      result = result.index_add(0, tokens, seen * weights.index_select(0, tokens).select(1, i).unsqueeze(1));
    }
    return result;
  }

  torch::nn::Linear gate;
  torch::nn::ModuleList experts;
};
TORCH_MODULE(Block);

Tensor batch(int64_t b) { return values_for(b, {kTokens, kWidth}); }

torch::nn::Sequential make_blocks() {
  torch::manual_seed(14);
  torch::nn::Sequential blocks;
  for (int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block());
  return blocks;
}

TestModel make_experts() {
  auto blocks = make_blocks();
  return {blocks.ptr(), [blocks](int64_t b) mutable { return blocks->forward(batch(b)).pow(2).mean(); }};
}

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
  auto blocks = make_blocks();
  const auto chosen = [&](int64_t b) { return std::get<0>(blocks->at<BlockImpl>(0).choice(batch(b)).sort()); };
  EXPECT_FALSE(torch::equal(chosen(0), chosen(1)));
  EXPECT_FALSE(torch::equal(chosen(0), chosen(2)));
}

TEST_P(Experts, AreInTheUnitOfTheirBlock) {
  run_ranks(GetParam(), [](World& world) {
    const TestModel model = make_experts();
    auto sharded = shard(*model.module, world);
    model.loss(world.rank()).backward();
    EXPECT_EQ(sharded.communication().reductions, kBlocks);
    // In the backward the last two are still there, and the first one's input wants no gradient.
    EXPECT_EQ(sharded.communication().gathers, kBlocks);
  });
}

}  // namespace
}  // namespace fsdp
