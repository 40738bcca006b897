// Language models whose logits are never whole, on ranks: the bits of one process.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using testing_models::expect_same_bits;
using testing_models::expect_same_bits_with_every_strategy;
using testing_models::TestModel;
using testing_models::values_for;
using torch::Tensor;

constexpr int64_t kVocabulary = 197, kWidth = 24;

// Where the head's weight comes from.
enum class Head { Tied, Own };

struct Net : torch::nn::Module {
  explicit Net(Head kind)
      : tokens(register_module("tokens", torch::nn::Embedding(kVocabulary, kWidth))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        head(kind == Head::Own ? register_parameter("head", torch::randn({kVocabulary, kWidth}) / 4) : tokens->weight) {
    for (int i = 0; i < 3; ++i) blocks->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  Tensor hidden(const Tensor& ids) {
    Tensor x = tokens(ids);
    for (const auto& block : *blocks) x = x + torch::tanh(block->as<torch::nn::Linear>()->forward(x));
    return x;
  }

  torch::nn::Embedding tokens;
  torch::nn::ModuleList blocks;
  Tensor head;
};

// Chunks of 64 entries; a micro-batch has some targets that are ignored.
TestModel make_net(Head kind) {
  torch::manual_seed(7);
  const auto net = std::make_shared<Net>(kind);
  return {net, [net](int64_t b) {
            const Tensor ids = values_for(b, {2, 9}).mul(40).abs().to(torch::kInt64).clamp_max(kVocabulary - 1);
            return linear_cross_entropy(
                net->hidden(ids.slice(1, 0, 8)), net->head, ids.slice(1, 1),
                {.ignore_index = 3, .label_smoothing = 0.1, .z_loss = 1e-3, .chunk_bytes = 64 * 16 * 4});
          }};
}

class LinearCrossEntropyOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LinearCrossEntropyOnRanks, drawn<int>({3}, {1, 2, 4}),
                         ::testing::PrintToStringParamName());

TEST_P(LinearCrossEntropyOnRanks, WithAnEmbeddingsWeight) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy([] { return make_net(Head::Tied); }, world,
                                         {.steps = 4, .micro_batches = 2 * world.size(), .clip = 0.5});
  });
}

TEST_P(LinearCrossEntropyOnRanks, WithAWeightOfItsOwn) {
  run_ranks(GetParam(), [](World& world) {
    expect_same_bits_with_every_strategy([] { return make_net(Head::Own); }, world,
                                         {.steps = 4, .micro_batches = 2 * world.size()});
  });
}

TEST_P(LinearCrossEntropyOnRanks, In16Bits) {
  run_ranks(GetParam(), [](World& world) {
    for (const Head kind : {Head::Tied, Head::Own}) {
      expect_same_bits([kind] { return make_net(kind); }, world,
                       {.steps = 4, .micro_batches = world.size(), .param_dtype = torch::kBFloat16},
                       {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    }
  });
}

// Ranks that step inside the backward, and others that gather over Gloo.
TEST_P(LinearCrossEntropyOnRanks, WithAStepInTheBackward) {
  for (const char* backend : {"auto", "gloo"}) {
    run_ranks({.ranks = GetParam(), .backend = backend}, [](World& world) {
      for (const Head kind : {Head::Tied, Head::Own}) {
        expect_same_bits([kind] { return make_net(kind); }, world,
                         {.steps = 4, .micro_batches = 2 * world.size(), .in_backward_every = 1});
      }
    });
  }
}

// Activations in fp32 that meet a weight in bf16 are cast, as linear layers cast them.
TEST(LinearCrossEntropyOnTwoRanks, CastsActivationsToTheUnitsDtype) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(7);
    Net net(Head::Own);
    const Tensor whole = net.head.detach().to(torch::kBFloat16), targets = torch::arange(5);
    const Tensor hidden = values_for(0, {5, kWidth}).requires_grad_();
    auto sharded = shard(net, world, {.mixed_precision = {.param_dtype = torch::kBFloat16}});
    const auto slope = [&](const Tensor& activations, const Tensor& weight) {
      return torch::autograd::grad({linear_cross_entropy(activations, weight, targets)}, {hidden})[0];
    };
    EXPECT_TRUE(torch::equal(slope(hidden, net.head), slope(hidden.to(torch::kBFloat16), whole)));
  });
}

}  // namespace
}  // namespace fsdp
