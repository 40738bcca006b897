// Nets of blocks that run again, for tests of Options::activation_memory, and budgets for them.
#pragma once

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/models.h"
#include "support/train_sharded.h"

namespace fsdp::activation_budgets {

using testing_models::TestModel;
using testing_models::Training;
using torch::Tensor;
namespace nn = torch::nn;

inline constexpr int64_t kLength = 6, kWidth = 16;

// As a GPT-2's: attention with one head and an MLP, with dropout in both.
struct GptBlockImpl : nn::Module {
  GptBlockImpl()
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        qkv(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
        up(register_module("up", nn::Linear(kWidth, 4 * kWidth))),
        down(register_module("down", nn::Linear(4 * kWidth, kWidth))) {}

  Tensor forward(const Tensor& input) {
    const auto parts = qkv(norm(input)).unsqueeze(1).chunk(3, -1);
    const Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true).squeeze(1);
    const Tensor x = input + torch::dropout(mixed, 0.2, is_training());
    return x + torch::dropout(down(torch::gelu(up(x))), 0.2, is_training());
  }

  nn::LayerNorm norm;
  nn::Linear qkv, up, down;
};

// As a Llama's: RMSNorm, and a gate. `scale` is everybody's, as its tables for the rotation are.
struct LlamaBlockImpl : nn::Module {
  LlamaBlockImpl()
      : weight(register_parameter("weight", torch::ones({kWidth}))),
        gate(register_module("gate", nn::Linear(nn::LinearOptions(kWidth, 3 * kWidth).bias(false)))),
        up(register_module("up", nn::Linear(nn::LinearOptions(kWidth, 3 * kWidth).bias(false)))),
        down(register_module("down", nn::Linear(nn::LinearOptions(3 * kWidth, kWidth).bias(false)))) {}

  Tensor forward(const Tensor& input, const Tensor& scale) {
    const Tensor x = torch::rms_norm(input, {kWidth}, weight, 1e-5) * scale;
    return input + down(torch::silu(gate(x)) * up(x));
  }

  Tensor weight;
  nn::Linear gate, up, down;
};

struct NetOptions {
  int64_t blocks = 4;
  bool llama = false;
  bool recomputed = true;
  bool begins_with_block = false;
};

struct Net : nn::Module {
  explicit Net(const NetOptions& options) : with(options) {
    for (int64_t i = 0; i < with.blocks; ++i) {
      if (with.llama) {
        with.recomputed ? blocks->push_back(Recomputed<LlamaBlockImpl>())
                        : blocks->push_back(std::make_shared<LlamaBlockImpl>());
      } else {
        with.recomputed ? blocks->push_back(Recomputed<GptBlockImpl>())
                        : blocks->push_back(std::make_shared<GptBlockImpl>());
      }
    }
    register_module("blocks", blocks);
    first = register_module("first", nn::Linear(3, kWidth));
    head = register_module("head", nn::Linear(kWidth, 3));
  }

  template <typename Block, typename... Inputs>
  Tensor call(const std::shared_ptr<nn::Module>& block, const Inputs&... inputs) const {
    if (with.recomputed) return block->as<Recomputed<Block>>()->forward(inputs...);
    return block->as<Block>()->forward(inputs...);
  }
  Tensor forward(const Tensor& input) {
    Tensor x = with.begins_with_block ? input.repeat({1, 1, 6}).narrow(2, 0, kWidth).contiguous()
                                      : first(input.to(first->weight.scalar_type()));
    const Tensor scale = torch::full({kLength, kWidth}, 0.5, x.scalar_type());
    for (const auto& block : *blocks) {
      x = with.llama ? call<LlamaBlockImpl>(block, x, scale) : call<GptBlockImpl>(block, x);
    }
    return head(x).pow(2).mean();
  }

  NetOptions with;
  nn::ModuleList blocks;
  nn::Linear first{nullptr}, head{nullptr};
};

inline std::shared_ptr<Net> make_net(const NetOptions& options = {}) {
  torch::manual_seed(7);
  return std::make_shared<Net>(options);
}

inline Tensor loss_of(Net& net, int64_t micro_batch, int64_t rows = 2) {
  torch::manual_seed(100 + static_cast<uint64_t>(micro_batch));
  return net.forward(testing_models::values_for(micro_batch, {rows, kLength, 3}));
}

inline TestModel test_model(const NetOptions& options) {
  const auto net = make_net(options);
  return {net, [net](int64_t b) { return loss_of(*net, b); }};
}

inline UnitPolicy blocks_as_units() { return units_of<GptBlockImpl, LlamaBlockImpl>(); }

inline constexpr int64_t kPlenty = int64_t{1} << 40;

// The decision of a few steps. A collective.
inline ActivationDecision decision_of(const NetOptions& net, World& world, Options options, const Training& training) {
  options.units = blocks_as_units();
  const TestModel model = test_model(net);
  auto sharded = shard(*model.module, world, options);
  testing_models::train(model, sharded, world, training);
  EXPECT_TRUE(sharded.activation_decision().has_value());
  return sharded.activation_decision().value_or(ActivationDecision());
}

inline int64_t least_of(const ActivationDecision& decision) { return std::ranges::max(decision.measured.peaks); }

// Some from the least that there can be to more than can be used.
inline std::vector<int64_t> budgets_between(int64_t least, int64_t most) {
  std::vector<int64_t> budgets;
  for (int i = 0; i <= 5; ++i) budgets.push_back(least + (most - least) * i / 5);
  budgets.push_back(most - 1);
  budgets.push_back(2 * most);
  return budgets;
}

}  // namespace fsdp::activation_budgets
