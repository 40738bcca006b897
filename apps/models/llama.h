// Llama (Touvron et al., 2023, https://arxiv.org/abs/2302.13971), with the names that Hugging Face gives its
// parameters: RMSNorm (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467), rotary embedding, grouped-query
// attention (Ainslie et al., 2023, https://arxiv.org/abs/2305.13245) and SwiGLU (Shazeer, 2020,
// https://arxiv.org/abs/2002.05202).
#pragma once

#include <torch/torch.h>

#include "models/adaptable_linear.h"
#include "models/key_value_cache.h"
#include "models/language_model.h"
#include "models/rotary_embedding.h"

namespace models {

class RmsNormImpl : public torch::nn::Module {
 public:
  explicit RmsNormImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x);  // [..., width], as the result

 private:
  double epsilon_;
  torch::Tensor weight_;
};
TORCH_MODULE(RmsNorm);

class LlamaAttentionImpl : public torch::nn::Module {
 public:
  explicit LlamaAttentionImpl(const ModelConfig& config);
  // x [batch, length, width], as the result
  torch::Tensor forward(const torch::Tensor& x, const Rotation& rotation, const CachedLayer& place = {});

 private:
  int64_t heads_, key_value_heads_, head_width_;
  double dropout_;
  AdaptableLinear q_proj_{nullptr}, k_proj_{nullptr}, v_proj_{nullptr}, o_proj_{nullptr};
};
TORCH_MODULE(LlamaAttention);

class LlamaMlpImpl : public torch::nn::Module {
 public:
  explicit LlamaMlpImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x);  // [batch, length, width], as the result

 private:
  AdaptableLinear gate_proj_, up_proj_, down_proj_;
};
TORCH_MODULE(LlamaMlp);

// One layer: x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width].
class LlamaBlockImpl : public torch::nn::Module {
 public:
  explicit LlamaBlockImpl(const ModelConfig& config);
  torch::Tensor forward(torch::Tensor x, const Rotation& rotation, const CachedLayer& place = {});

 private:
  RmsNorm input_layernorm_;
  LlamaAttention self_attn_;
  RmsNorm post_attention_layernorm_;
  LlamaMlp mlp_;
};
TORCH_MODULE(LlamaBlock);

// Initialised as Hugging Face's LlamaForCausalLM, as the papers do not say how: normal with deviation 0.02 (the
// config's initializer_range) for every matrix and the embedding; biases 0, norms 1.
class LlamaImpl : public LanguageModel {
 public:
  explicit LlamaImpl(const ModelConfig& config);

 protected:
  torch::Tensor features(const torch::Tensor& tokens, KeyValueCache* cache) override;
  const torch::Tensor& head() const override;

 private:
  void initialise();

  torch::Tensor frequencies_;  // no buffer: it follows from the config, and stays fp32 whatever the model becomes
  torch::nn::Embedding embed_tokens_{nullptr};
  torch::nn::ModuleList layers_;
  RmsNorm norm_{nullptr};
  torch::nn::Linear lm_head_{nullptr};  // absent where the embedding is the head
};

}  // namespace models
