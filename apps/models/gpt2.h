// GPT-2 (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners"), with the names that Hugging Face
// gives its parameters. Their matrices are [out, in] here, as torch::nn::Linear's, and [in, out] in the files.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "models/key_value_cache.h"
#include "models/language_model.h"
#include "models/layers.h"

namespace models {

class Gpt2AttentionImpl : public torch::nn::Module {
 public:
  explicit Gpt2AttentionImpl(const ModelConfig& config, const Division& division = {});
  // x [batch, length, width], as the result
  torch::Tensor forward(const torch::Tensor& x, const CachedLayer& place = {});

 private:
  torch::Tensor mixed(const torch::Tensor& projected, const CachedLayer& place) const;
  torch::Tensor mixed_parts(const torch::Tensor& projected, const CachedLayer& place) const;

  ModelConfig config_;
  Division division_;
  Layer c_attn_, c_proj_;
};
TORCH_MODULE(Gpt2Attention);

class Gpt2MlpImpl : public torch::nn::Module {
 public:
  explicit Gpt2MlpImpl(const ModelConfig& config, const Division& division = {});
  torch::Tensor forward(const torch::Tensor& x);  // [batch, length, width], as the result

 private:
  Division division_;
  Layer c_fc_, c_proj_;
};
TORCH_MODULE(Gpt2Mlp);

// One layer: x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width].
class Gpt2BlockImpl : public torch::nn::Module {
 public:
  explicit Gpt2BlockImpl(const ModelConfig& config, const Division& division = {});
  torch::Tensor forward(torch::Tensor x, const CachedLayer& place = {});

 private:
  double dropout_;
  Division division_;
  torch::nn::LayerNorm ln_1_;
  Gpt2Attention attn_;
  torch::nn::LayerNorm ln_2_;
  Gpt2Mlp mlp_;
};
TORCH_MODULE(Gpt2Block);

// Initialised as in the paper: normal with deviation 0.02 (the config's initializer_range), and 0.02 / sqrt(2 * layers)
// where a layer adds to x; biases 0, norms 1.
class Gpt2Impl : public LanguageModel {
 public:
  explicit Gpt2Impl(const ModelConfig& config, const Division& division = {});

 private:
  void initialise();
};

// block_forwards of GPT-2.
std::vector<BlockForward> gpt2_forwards(const ModelConfig& config, const Division& division);

}  // namespace models
