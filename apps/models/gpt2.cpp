#include "models/gpt2.h"

#include <cmath>
#include <utility>

namespace models {

namespace nn = torch::nn;

namespace {

nn::LayerNorm layer_norm(const ModelConfig& config) {
  return nn::LayerNorm(nn::LayerNormOptions({config.width}).eps(config.norm_epsilon));
}

}  // namespace

Gpt2AttentionImpl::Gpt2AttentionImpl(const ModelConfig& config)
    : heads_(config.heads),
      dropout_(config.attention_dropout),
      c_attn_(register_module("c_attn", AdaptableLinear(config.width, 3 * config.width))),
      c_proj_(register_module("c_proj", AdaptableLinear(config.width, config.width))) {}

torch::Tensor Gpt2AttentionImpl::forward(const torch::Tensor& x, const CachedLayer& place) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  // [batch, length, 3, heads, width / heads] -> three times [batch, heads, length, width / heads]
  auto parts = c_attn_(x).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  auto mixed = causal_attention(parts[0], parts[1], parts[2], is_training() ? dropout_ : 0.0, place);
  return c_proj_(mixed.transpose(1, 2).reshape({batch, length, width}));
}

Gpt2MlpImpl::Gpt2MlpImpl(const ModelConfig& config)
    : c_fc_(register_module("c_fc", AdaptableLinear(config.width, config.mlp_width_or_default()))),
      c_proj_(register_module("c_proj", AdaptableLinear(config.mlp_width_or_default(), config.width))) {}

torch::Tensor Gpt2MlpImpl::forward(const torch::Tensor& x) { return c_proj_(torch::gelu(c_fc_(x), "tanh")); }

Gpt2BlockImpl::Gpt2BlockImpl(const ModelConfig& config)
    : dropout_(config.residual_dropout),
      ln_1_(register_module("ln_1", layer_norm(config))),
      attn_(register_module("attn", Gpt2Attention(config))),
      ln_2_(register_module("ln_2", layer_norm(config))),
      mlp_(register_module("mlp", Gpt2Mlp(config))) {}

torch::Tensor Gpt2BlockImpl::forward(torch::Tensor x, const CachedLayer& place) {
  x = x + torch::dropout(attn_(ln_1_(x), place), dropout_, is_training());
  return x + torch::dropout(mlp_(ln_2_(x)), dropout_, is_training());
}

Gpt2Impl::Gpt2Impl(const ModelConfig& config) : LanguageModel(config) {
  // The module between exists for the names alone.
  auto transformer = register_module("transformer", std::make_shared<nn::Module>());
  wte_ = transformer->register_module("wte", nn::Embedding(config.vocabulary, config.width));
  wpe_ = transformer->register_module("wpe", nn::Embedding(config.context, config.width));
  h_ = transformer->register_module("h", nn::ModuleList());
  for (int64_t layer = 0; layer < config.layers; ++layer) h_->push_back(fsdp::Recomputed<Gpt2BlockImpl>(config));
  set_recomputation({});
  ln_f_ = transformer->register_module("ln_f", layer_norm(config));
  if (!config.tied_embeddings) {
    lm_head_ = register_module("lm_head", nn::Linear(nn::LinearOptions(config.width, config.vocabulary).bias(false)));
  }
  initialise();
}

void Gpt2Impl::initialise() {
  torch::NoGradGuard no_grad;
  const double deviation = config().initializer_range;
  const double residual_deviation = deviation / std::sqrt(2.0 * static_cast<double>(config().layers));
  for (auto& named : named_parameters()) {
    const std::string& name = named.key();
    if (named.value().dim() == 1) {
      if (name.ends_with("bias")) nn::init::zeros_(named.value());  // norms are ones already
    } else {
      nn::init::normal_(named.value(), 0.0, name.ends_with("c_proj.weight") ? residual_deviation : deviation);
    }
  }
}

torch::Tensor Gpt2Impl::features(const torch::Tensor& tokens, KeyValueCache* cache) {
  const int64_t first = cache == nullptr ? 0 : cache->length();
  auto positions = torch::arange(first, first + tokens.size(1), tokens.options());
  auto x = torch::dropout(wte_(tokens) + wpe_(positions), config().embedding_dropout, is_training());
  CachedLayer place{cache, 0};
  for (const auto& block : *h_) {
    x = block->as<fsdp::RecomputedImpl<Gpt2BlockImpl>>()->forward(std::move(x), place);
    ++place.layer;
  }
  return ln_f_(x);
}

const torch::Tensor& Gpt2Impl::head() const { return config().tied_embeddings ? wte_->weight : lm_head_->weight; }

}  // namespace models
