#include "models/llama.h"

#include <utility>

#include "models/first_values.h"
#include "models/head.h"
#include "models/part_attention.h"
#include "models/parts.h"

namespace models {

namespace nn = torch::nn;
using torch::Tensor;

namespace {

nn::LinearOptions linear(int64_t in, int64_t out, bool bias) { return nn::LinearOptions(in, out).bias(bias); }

// [batch, length, heads * head_width] -> [batch, heads, length, head_width]
Tensor divided(const Tensor& projected, int64_t heads, int64_t head_width) {
  return projected.view({projected.size(0), projected.size(1), heads, head_width}).transpose(1, 2);
}

}  // namespace

RmsNormImpl::RmsNormImpl(const ModelConfig& config, const Division& division)
    : epsilon_(config.norm_epsilon),
      division_(division),
      weight_(register_parameter("weight", torch::ones({config.width}))) {}

Tensor RmsNormImpl::forward(const Tensor& x) {
  return norm_of_slices(x, {weight_}, division_, [this](const Tensor& slice, const auto& parameters) {
    return torch::rms_norm(slice, {slice.size(-1)}, parameters[0], epsilon_);
  });
}

LlamaAttentionImpl::LlamaAttentionImpl(const ModelConfig& config, const Division& division)
    : config_(config), division_(division) {
  const fsdp::FeatureBlock heads{config.heads, config.head_width_or_default()};
  const fsdp::FeatureBlock shared{config.key_value_heads_or_default(), heads.head_size};
  const int64_t width = config.width, of_heads = heads.heads * heads.head_size,
                of_shared = shared.heads * shared.head_size;
  const bool bias = config.attention_bias;
  q_proj_ = column_layer(*this, "q_proj", linear(width, of_heads, bias), division, {heads});
  k_proj_ = column_layer(*this, "k_proj", linear(width, of_shared, bias), division, {shared});
  v_proj_ = column_layer(*this, "v_proj", linear(width, of_shared, bias), division, {shared});
  o_proj_ = row_layer(*this, "o_proj", linear(of_heads, width, bias), division);
}

Tensor LlamaAttentionImpl::forward(const Tensor& x, const Rotation& rotation, const CachedLayer& place) {
  const double dropout = is_training() ? config_.attention_dropout : 0.0;
  if (!division_.tensor) return o_proj_(mixed(x, rotation, dropout, place));
  const auto of_parts = [&](const Layer& layer) { return split_evenly(layer(x), -1, division_); };
  return o_proj_(attention_of_parts({of_parts(q_proj_), of_parts(k_proj_), of_parts(v_proj_)},
                                    heads_of_part(config_, division_), &rotation, dropout, division_, place));
}

Tensor LlamaAttentionImpl::mixed(const Tensor& x, const Rotation& rotation, double dropout, const CachedLayer& place) {
  const int64_t heads = config_.heads, shared = config_.key_value_heads_or_default(),
                head_width = config_.head_width_or_default();
  auto queries = rotation.turn(divided(q_proj_(x), heads, head_width));
  auto keys = rotation.turn(divided(k_proj_(x), shared, head_width));
  auto values = divided(v_proj_(x), shared, head_width);
  auto mixed = causal_attention(queries, keys, values, dropout, place);
  return mixed.transpose(1, 2).reshape({x.size(0), x.size(1), heads * head_width});
}

LlamaMlpImpl::LlamaMlpImpl(const ModelConfig& config, const Division& division) : division_(division) {
  const int64_t width = config.width, inner = config.mlp_width_or_default();
  gate_proj_ = column_layer(*this, "gate_proj", linear(width, inner, config.mlp_bias), division);
  up_proj_ = column_layer(*this, "up_proj", linear(width, inner, config.mlp_bias), division);
  down_proj_ = row_layer(*this, "down_proj", linear(inner, width, config.mlp_bias), division);
}

Tensor LlamaMlpImpl::forward(const Tensor& x) {
  if (!division_.tensor) return down_proj_(torch::silu(gate_proj_(x)) * up_proj_(x));
  std::vector<Tensor> parts = split_evenly(gate_proj_(x), -1, division_);
  const std::vector<Tensor> ups = split_evenly(up_proj_(x), -1, division_);
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = torch::silu(parts[i]) * ups[i];
  return down_proj_(join(parts, -1));
}

LlamaBlockImpl::LlamaBlockImpl(const ModelConfig& config, const Division& division)
    : input_layernorm_(register_module("input_layernorm", RmsNorm(config, division))),
      self_attn_(register_module("self_attn", LlamaAttention(config, division))),
      post_attention_layernorm_(register_module("post_attention_layernorm", RmsNorm(config, division))),
      mlp_(register_module("mlp", LlamaMlp(config, division))) {}

Tensor LlamaBlockImpl::forward(Tensor x, const Rotation& rotation, const CachedLayer& place) {
  x = x + self_attn_(input_layernorm_(x), rotation, place);
  return x + mlp_(post_attention_layernorm_(x));
}

LlamaImpl::LlamaImpl(const ModelConfig& config, const Division& division) : LanguageModel(config, division) {
  // The module between exists for the names alone.
  auto model = register_module("model", std::make_shared<nn::Module>());
  model->register_module("embed_tokens", make_embedding(config.vocabulary, config.width, division));
  auto layers = model->register_module("layers", nn::ModuleList());
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    layers->push_back(fsdp::Recomputed<LlamaBlockImpl>(config, division));
  }
  model->register_module("norm", RmsNorm(config, division));
  if (!config.tied_embeddings) register_module("lm_head", make_head(config, division));
  set_blocks(llama_forwards(config, division));
  initialise();
}

void LlamaImpl::initialise() {
  write_whole_parameters(*this, [&](const std::string& name, Tensor& value) {
    if (value.dim() == 2) {
      nn::init::normal_(value, 0.0, config().initializer_range);
    } else if (name.ends_with("bias")) {
      nn::init::zeros_(value);
    }
  });
}

std::vector<BlockForward> llama_forwards(const ModelConfig& config, const Division& division) {
  // No buffer: it follows from the config, and stays fp32 in any model.
  const Tensor frequencies = rotary_frequencies(config);
  std::vector<BlockForward> forwards;
  forwards.emplace_back([](nn::Module& block, const Tensor& tokens, Pass&) { return embed(block, tokens); });
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    forwards.emplace_back([=](nn::Module& block, Tensor x, Pass& pass) {
      const Rotation& rotation = pass.rotation(frequencies, x.size(1) * sequence_ranks(division), x.device());
      return block.as<fsdp::RecomputedImpl<LlamaBlockImpl>>()->forward(std::move(x), rotation, {pass.cache(), layer});
    });
  }
  forwards.emplace_back([division](nn::Module& block, const Tensor& x, Pass&) {
    return whole_sequence(block.as<RmsNormImpl>()->forward(x), division);
  });
  return forwards;
}

}  // namespace models
