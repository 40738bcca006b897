// Llama (Touvron et al., 2023, https://arxiv.org/abs/2302.13971), with the names that Hugging Face gives its
// parameters: RMSNorm (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467), rotary embedding, grouped-query
// attention (Ainslie et al., 2023, https://arxiv.org/abs/2305.13245) and SwiGLU (Shazeer, 2020,
// https://arxiv.org/abs/2002.05202).
#pragma once

#include <torch/torch.h>

#include <vector>

#include "models/key_value_cache.h"
#include "models/language_model.h"
#include "models/layers.h"
#include "models/rotary_embedding.h"

namespace models {

class RmsNormImpl : public torch::nn::Module {
 public:
  explicit RmsNormImpl(const ModelConfig& config, const Division& division = {});
  torch::Tensor forward(const torch::Tensor& x);  // [..., width], as the result

 private:
  double epsilon_;
  Division division_;
  torch::Tensor weight_;
};
TORCH_MODULE(RmsNorm);

class LlamaAttentionImpl : public torch::nn::Module {
 public:
  explicit LlamaAttentionImpl(const ModelConfig& config, const Division& division = {});
  // x [batch, length, width], as the result
  torch::Tensor forward(const torch::Tensor& x, const Rotation& rotation, const CachedLayer& place = {});

 private:
  torch::Tensor mixed(const torch::Tensor& x, const Rotation& rotation, double dropout, const CachedLayer& place);

  ModelConfig config_;
  Division division_;
  Layer q_proj_, k_proj_, v_proj_, o_proj_;
};
TORCH_MODULE(LlamaAttention);

class LlamaMlpImpl : public torch::nn::Module {
 public:
  explicit LlamaMlpImpl(const ModelConfig& config, const Division& division = {});
  torch::Tensor forward(const torch::Tensor& x);  // [batch, length, width], as the result

 private:
  Division division_;
  Layer gate_proj_, up_proj_, down_proj_;
};
TORCH_MODULE(LlamaMlp);

// One layer: x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width].
class LlamaBlockImpl : public torch::nn::Module {
 public:
  explicit LlamaBlockImpl(const ModelConfig& config, const Division& division = {});
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
  explicit LlamaImpl(const ModelConfig& config, const Division& division = {});

 private:
  void initialise();
};

// block_forwards of Llama.
std::vector<BlockForward> llama_forwards(const ModelConfig& config, const Division& division);

}  // namespace models
