// GPT-2 (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners") in plain torch::nn code. Nothing
// here knows that a model can be sharded.
#pragma once

#include <torch/torch.h>

#include "models/gpt_config.h"

namespace gpt {

// One layer: x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width].
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const Config& config);
  torch::Tensor forward(torch::Tensor x);

 private:
  torch::Tensor attention(const torch::Tensor& x);

  int64_t heads_;
  torch::nn::LayerNorm attention_norm_, mlp_norm_;
  torch::nn::Linear qkv_, projection_, up_, down_;
};
TORCH_MODULE(Block);

// Initialised as in the paper: normal with deviation 0.02, and 0.02 / sqrt(2 * layers) where a layer adds to x.
class GptImpl : public torch::nn::Module {
 public:
  explicit GptImpl(const Config& config);

  // Logits [batch, length, vocabulary] for tokens [batch, length], int64, length <= context. Tokens and targets are
  // brought to the model's device.
  torch::Tensor forward(const torch::Tensor& tokens);
  // The mean cross entropy, in nats and in fp32, of targets [batch, length].
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets);
  const Config& config() const { return config_; }

 private:
  void initialise();

  Config config_;
  torch::nn::Embedding token_embedding_, position_embedding_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm final_norm_;
};
TORCH_MODULE(Gpt);

}  // namespace gpt
