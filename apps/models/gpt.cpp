#include "models/gpt.h"

#include <cmath>
#include <utility>

namespace gpt {

namespace nn = torch::nn;

namespace {
nn::LayerNorm layer_norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }
}  // namespace

BlockImpl::BlockImpl(const Config& config)
    : heads_(config.heads),
      attention_norm_(register_module("attention_norm", layer_norm(config.width))),
      mlp_norm_(register_module("mlp_norm", layer_norm(config.width))),
      qkv_(register_module("qkv", nn::Linear(config.width, 3 * config.width))),
      projection_(register_module("projection", nn::Linear(config.width, config.width))),
      up_(register_module("up", nn::Linear(config.width, 4 * config.width))),
      down_(register_module("down", nn::Linear(4 * config.width, config.width))) {}

torch::Tensor BlockImpl::attention(const torch::Tensor& x) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  // [batch, length, 3, heads, width / heads] -> three times [batch, heads, length, width / heads]
  auto parts = qkv_(x).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  auto mixed = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                                   /*is_causal=*/true);
  return projection_(mixed.transpose(1, 2).reshape({batch, length, width}));
}

torch::Tensor BlockImpl::forward(torch::Tensor x) {
  x = x + attention(attention_norm_(x));
  return x + down_(torch::gelu(up_(mlp_norm_(x)), "tanh"));
}

GptImpl::GptImpl(const Config& config)
    : config_(config),
      token_embedding_(register_module("token_embedding", nn::Embedding(config.vocabulary, config.width))),
      position_embedding_(register_module("position_embedding", nn::Embedding(config.context, config.width))),
      blocks_(register_module("blocks", nn::ModuleList())),
      final_norm_(register_module("final_norm", layer_norm(config.width))) {
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks_->push_back(Block(config));
  initialise();
}

void GptImpl::initialise() {
  torch::NoGradGuard no_grad;
  const double residual_deviation = 0.02 / std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (auto& named : named_parameters()) {
    const std::string& name = named.key();
    if (name.ends_with("norm.weight")) continue;  // ones already
    if (name.ends_with("bias")) {
      nn::init::zeros_(named.value());
    } else {
      const bool adds_to_x = name.ends_with("projection.weight") || name.ends_with("down.weight");
      nn::init::normal_(named.value(), 0.0, adds_to_x ? residual_deviation : 0.02);
    }
  }
}

torch::Tensor GptImpl::forward(const torch::Tensor& given) {
  const torch::Tensor tokens = given.to(token_embedding_->weight.device());
  auto positions = torch::arange(tokens.size(1), tokens.options());
  auto x = token_embedding_(tokens) + position_embedding_(positions);
  for (const auto& block : *blocks_) x = block->as<BlockImpl>()->forward(std::move(x));
  return torch::linear(final_norm_(x), token_embedding_->weight);
}

torch::Tensor GptImpl::loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
  // The logits of a model that runs in 16 bits are; their logarithms and sums want more.
  const torch::Tensor logits = forward(tokens).to(torch::kFloat32);
  return torch::cross_entropy_loss(logits.flatten(0, 1), targets.to(logits.device()).flatten());
}

}  // namespace gpt
