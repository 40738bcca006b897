#include "models/llama.h"

#include <utility>

namespace models {

namespace nn = torch::nn;

namespace {

AdaptableLinear linear(int64_t in, int64_t out, bool bias) {
  return AdaptableLinear(nn::LinearOptions(in, out).bias(bias));
}

// [batch, length, heads * head_width] -> [batch, heads, length, head_width]
torch::Tensor divided(const torch::Tensor& projected, int64_t heads, int64_t head_width) {
  return projected.view({projected.size(0), projected.size(1), heads, head_width}).transpose(1, 2);
}

}  // namespace

RmsNormImpl::RmsNormImpl(const ModelConfig& config)
    : epsilon_(config.norm_epsilon), weight_(register_parameter("weight", torch::ones({config.width}))) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x) {
  return torch::rms_norm(x, {x.size(-1)}, weight_, epsilon_);
}

LlamaAttentionImpl::LlamaAttentionImpl(const ModelConfig& config)
    : heads_(config.heads),
      key_value_heads_(config.key_value_heads_or_default()),
      head_width_(config.head_width_or_default()),
      dropout_(config.attention_dropout) {
  const bool bias = config.attention_bias;
  q_proj_ = register_module("q_proj", linear(config.width, heads_ * head_width_, bias));
  k_proj_ = register_module("k_proj", linear(config.width, key_value_heads_ * head_width_, bias));
  v_proj_ = register_module("v_proj", linear(config.width, key_value_heads_ * head_width_, bias));
  o_proj_ = register_module("o_proj", linear(heads_ * head_width_, config.width, bias));
}

torch::Tensor LlamaAttentionImpl::forward(const torch::Tensor& x, const Rotation& rotation, const CachedLayer& place) {
  auto queries = rotation.turn(divided(q_proj_(x), heads_, head_width_));
  auto keys = rotation.turn(divided(k_proj_(x), key_value_heads_, head_width_));
  auto values = divided(v_proj_(x), key_value_heads_, head_width_);
  auto mixed = causal_attention(queries, keys, values, is_training() ? dropout_ : 0.0, place);
  return o_proj_(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), heads_ * head_width_}));
}

LlamaMlpImpl::LlamaMlpImpl(const ModelConfig& config)
    : gate_proj_(register_module("gate_proj", linear(config.width, config.mlp_width_or_default(), config.mlp_bias))),
      up_proj_(register_module("up_proj", linear(config.width, config.mlp_width_or_default(), config.mlp_bias))),
      down_proj_(register_module("down_proj", linear(config.mlp_width_or_default(), config.width, config.mlp_bias))) {}

torch::Tensor LlamaMlpImpl::forward(const torch::Tensor& x) {
  return down_proj_(torch::silu(gate_proj_(x)) * up_proj_(x));
}

LlamaBlockImpl::LlamaBlockImpl(const ModelConfig& config)
    : input_layernorm_(register_module("input_layernorm", RmsNorm(config))),
      self_attn_(register_module("self_attn", LlamaAttention(config))),
      post_attention_layernorm_(register_module("post_attention_layernorm", RmsNorm(config))),
      mlp_(register_module("mlp", LlamaMlp(config))) {}

torch::Tensor LlamaBlockImpl::forward(torch::Tensor x, const Rotation& rotation, const CachedLayer& place) {
  x = x + self_attn_(input_layernorm_(x), rotation, place);
  return x + mlp_(post_attention_layernorm_(x));
}

LlamaImpl::LlamaImpl(const ModelConfig& config) : LanguageModel(config), frequencies_(rotary_frequencies(config)) {
  // The module between exists for the names alone.
  auto model = register_module("model", std::make_shared<nn::Module>());
  embed_tokens_ = model->register_module("embed_tokens", nn::Embedding(config.vocabulary, config.width));
  layers_ = model->register_module("layers", nn::ModuleList());
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    layers_->push_back(fsdp::Recomputed<LlamaBlockImpl>(config));
  }
  set_recomputation({});
  norm_ = model->register_module("norm", RmsNorm(config));
  if (!config.tied_embeddings) {
    lm_head_ = register_module("lm_head", nn::Linear(nn::LinearOptions(config.width, config.vocabulary).bias(false)));
  }
  initialise();
}

void LlamaImpl::initialise() {
  torch::NoGradGuard no_grad;
  for (auto& named : named_parameters()) {
    if (named.value().dim() == 2) {
      nn::init::normal_(named.value(), 0.0, config().initializer_range);
    } else if (named.key().ends_with("bias")) {
      nn::init::zeros_(named.value());
    }
  }
}

torch::Tensor LlamaImpl::features(const torch::Tensor& tokens, KeyValueCache* cache) {
  const int64_t first = cache == nullptr ? 0 : cache->length();
  const Rotation rotation = rotation_of(frequencies_.to(tokens.device()), first, tokens.size(1));
  auto x = embed_tokens_(tokens);
  CachedLayer place{cache, 0};
  for (const auto& block : *layers_) {
    x = block->as<fsdp::RecomputedImpl<LlamaBlockImpl>>()->forward(std::move(x), rotation, place);
    ++place.layer;
  }
  return norm_(x);
}

const torch::Tensor& LlamaImpl::head() const {
  return config().tied_embeddings ? embed_tokens_->weight : lm_head_->weight;
}

}  // namespace models
