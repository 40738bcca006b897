// GPT-2 (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners"), with the names that Hugging Face
// gives its parameters. Their matrices are [out, in] here, as torch::nn::Linear's, and [in, out] in the files.
#pragma once

#include <torch/torch.h>

#include "models/adaptable_linear.h"
#include "models/key_value_cache.h"
#include "models/language_model.h"

namespace models {

class Gpt2AttentionImpl : public torch::nn::Module {
 public:
  explicit Gpt2AttentionImpl(const ModelConfig& config);
  // x [batch, length, width], as the result
  torch::Tensor forward(const torch::Tensor& x, const CachedLayer& place = {});

 private:
  int64_t heads_;
  double dropout_;
  AdaptableLinear c_attn_, c_proj_;
};
TORCH_MODULE(Gpt2Attention);

class Gpt2MlpImpl : public torch::nn::Module {
 public:
  explicit Gpt2MlpImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x);  // [batch, length, width], as the result

 private:
  AdaptableLinear c_fc_, c_proj_;
};
TORCH_MODULE(Gpt2Mlp);

// One layer: x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width].
class Gpt2BlockImpl : public torch::nn::Module {
 public:
  explicit Gpt2BlockImpl(const ModelConfig& config);
  torch::Tensor forward(torch::Tensor x, const CachedLayer& place = {});

 private:
  double dropout_;
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
  explicit Gpt2Impl(const ModelConfig& config);

 protected:
  torch::Tensor features(const torch::Tensor& tokens, KeyValueCache* cache) override;
  const torch::Tensor& head() const override;

 private:
  void initialise();

  torch::nn::Embedding wte_{nullptr}, wpe_{nullptr};
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_{nullptr};
  torch::nn::Linear lm_head_{nullptr};  // absent where the embedding is the head
};

}  // namespace models
