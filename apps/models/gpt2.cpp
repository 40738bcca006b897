#include "models/gpt2.h"

#include <cmath>
#include <utility>

#include "models/first_values.h"
#include "models/head.h"
#include "models/part_attention.h"
#include "models/part_randomness.h"
#include "models/parts.h"

namespace models {

namespace nn = torch::nn;
using torch::Tensor;

namespace {

nn::LayerNorm layer_norm(const ModelConfig& config) {
  return nn::LayerNorm(nn::LayerNormOptions({config.width}).eps(config.norm_epsilon));
}

Tensor normalised(nn::LayerNormImpl& norm, const Tensor& x, const Division& division) {
  if (!division.sequence_parallel) return norm.forward(x);
  return norm_of_slices(x, {norm.weight, norm.bias}, division, [&](const Tensor& slice, const auto& parameters) {
    return torch::layer_norm(slice, {slice.size(-1)}, parameters[0], parameters[1], norm.options.eps());
  });
}

Tensor with_positions(nn::EmbeddingImpl& positions, const Tensor& x, const Pass& pass, const Division& division) {
  const auto numbers = torch::TensorOptions(torch::kInt64).device(x.device());
  const int64_t length = x.size(1) * sequence_ranks(division);
  const Tensor added = positions.forward(torch::arange(pass.first(), pass.first() + length, numbers));
  if (!division.sequence_parallel) return x + added;
  const Tensor own = fsdp::sequence_slice(added.unsqueeze(0), *division.tensor);
  std::vector<Tensor> slices = split_evenly(x, 1, division), of_own = split_evenly(own, 1, division);
  for (size_t i = 0; i < slices.size(); ++i) slices[i] = slices[i] + of_own[i];
  return join(slices, 1);
}

}  // namespace

Gpt2AttentionImpl::Gpt2AttentionImpl(const ModelConfig& config, const Division& division)
    : config_(config), division_(division) {
  const fsdp::FeatureBlock heads{config.heads, config.head_width_or_default()};
  const int64_t width = config.width, of_heads = heads.heads * heads.head_size;
  c_attn_ = column_layer(*this, "c_attn", nn::LinearOptions(width, 3 * of_heads), division, {heads, heads, heads});
  c_proj_ = row_layer(*this, "c_proj", nn::LinearOptions(of_heads, width), division);
}

Tensor Gpt2AttentionImpl::forward(const Tensor& x, const CachedLayer& place) {
  const Tensor projected = c_attn_(x);
  return c_proj_(division_.tensor ? mixed_parts(projected, place) : mixed(projected, place));
}

Tensor Gpt2AttentionImpl::mixed(const Tensor& projected, const CachedLayer& place) const {
  const int64_t batch = projected.size(0), length = projected.size(1), heads = config_.heads,
                head_width = config_.head_width_or_default();
  // [batch, length, 3, heads, head_width] -> three times [batch, heads, length, head_width]
  auto parts = projected.view({batch, length, 3, heads, head_width}).permute({2, 0, 3, 1, 4}).unbind(0);
  auto mixed = causal_attention(parts[0], parts[1], parts[2], is_training() ? config_.attention_dropout : 0.0, place);
  return mixed.transpose(1, 2).reshape({batch, length, heads * head_width});
}

// `projected` has the queries of all parts, then their keys, then their values.
Tensor Gpt2AttentionImpl::mixed_parts(const Tensor& projected, const CachedLayer& place) const {
  const PartHeads heads = heads_of_part(config_, division_);
  const int64_t count = parts_of(division_).count;
  const std::vector<Tensor> all = split(projected, -1, std::vector<int64_t>(3 * count, heads.queries * heads.width));
  const auto keys = all.begin() + count, values = keys + count;
  return attention_of_parts({{all.begin(), keys}, {keys, values}, {values, all.end()}}, heads, /*rotation=*/nullptr,
                            is_training() ? config_.attention_dropout : 0.0, division_, place);
}

Gpt2MlpImpl::Gpt2MlpImpl(const ModelConfig& config, const Division& division) : division_(division) {
  const int64_t inner = config.mlp_width_or_default();
  c_fc_ = column_layer(*this, "c_fc", nn::LinearOptions(config.width, inner), division);
  c_proj_ = row_layer(*this, "c_proj", nn::LinearOptions(inner, config.width), division);
}

Tensor Gpt2MlpImpl::forward(const Tensor& x) {
  if (!division_.tensor) return c_proj_(torch::gelu(c_fc_(x), "tanh"));
  std::vector<Tensor> parts = split_evenly(c_fc_(x), -1, division_);
  for (Tensor& part : parts) part = torch::gelu(part, "tanh");
  return c_proj_(join(parts, -1));
}

Gpt2BlockImpl::Gpt2BlockImpl(const ModelConfig& config, const Division& division)
    : dropout_(config.residual_dropout),
      division_(division),
      ln_1_(register_module("ln_1", layer_norm(config))),
      attn_(register_module("attn", Gpt2Attention(config, division))),
      ln_2_(register_module("ln_2", layer_norm(config))),
      mlp_(register_module("mlp", Gpt2Mlp(config, division))) {}

Tensor Gpt2BlockImpl::forward(Tensor x, const CachedLayer& place) {
  const auto dropped = [&](const Tensor& added) { return dropout_between(added, dropout_, is_training(), division_); };
  x = x + dropped(attn_(normalised(*ln_1_, x, division_), place));
  return x + dropped(mlp_(normalised(*ln_2_, x, division_)));
}

Gpt2Impl::Gpt2Impl(const ModelConfig& config, const Division& division) : LanguageModel(config, division) {
  // The module between exists for the names alone.
  auto transformer = register_module("transformer", std::make_shared<nn::Module>());
  transformer->register_module("wte", make_embedding(config.vocabulary, config.width, division));
  transformer->register_module("wpe", nn::Embedding(config.context, config.width));
  auto layers = transformer->register_module("h", nn::ModuleList());
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    layers->push_back(fsdp::Recomputed<Gpt2BlockImpl>(config, division));
  }
  transformer->register_module("ln_f", layer_norm(config));
  if (!config.tied_embeddings) register_module("lm_head", make_head(config, division));
  set_blocks(gpt2_forwards(config, division));
  initialise();
}

void Gpt2Impl::initialise() {
  const double deviation = config().initializer_range;
  const double residual_deviation = deviation / std::sqrt(2.0 * static_cast<double>(config().layers));
  write_whole_parameters(*this, [&](const std::string& name, Tensor& value) {
    if (value.dim() == 1) {
      if (name.ends_with("bias")) nn::init::zeros_(value);  // norms are ones already
    } else {
      nn::init::normal_(value, 0.0, name.ends_with("c_proj.weight") ? residual_deviation : deviation);
    }
  });
}

std::vector<BlockForward> gpt2_forwards(const ModelConfig& config, const Division& division) {
  std::vector<BlockForward> forwards;
  forwards.emplace_back([](nn::Module& block, const Tensor& tokens, Pass&) { return embed(block, tokens); });
  forwards.emplace_back([division, share = config.embedding_dropout](nn::Module& block, const Tensor& x, Pass& pass) {
    const Tensor sum = with_positions(*block.as<nn::EmbeddingImpl>(), x, pass, division);
    return dropout_between(sum, share, block.is_training(), division);
  });
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    forwards.emplace_back([layer](nn::Module& block, Tensor x, Pass& pass) {
      return block.as<fsdp::RecomputedImpl<Gpt2BlockImpl>>()->forward(std::move(x), {pass.cache(), layer});
    });
  }
  forwards.emplace_back([division](nn::Module& block, const Tensor& x, Pass&) {
    return whole_sequence(normalised(*block.as<nn::LayerNormImpl>(), x, division), division);
  });
  return forwards;
}

}  // namespace models
