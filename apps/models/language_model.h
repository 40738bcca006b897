// The common part of all language models here. Plain torch::nn code: nothing knows that a model can be sharded.
#pragma once

#include <fsdp/activation_checkpoint.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

#include "models/key_value_cache.h"
#include "models/model_config.h"
#include "models/recomputation.h"

namespace models {

// Owned as any torch::nn::Module; one thread at a time. In training mode, which a new model is in, dropout draws from
// LibTorch's default generator where the config asks for dropout: after torch::manual_seed a pass draws the same.
class LanguageModel : public torch::nn::Module {
 public:
  explicit LanguageModel(ModelConfig config) : config_(std::move(config)) {}

  // Logits [batch, length, vocabulary] for tokens [batch, length], int64, 1 <= length <= context. Throws fsdp::Error
  // for tokens of another shape, and LibTorch's error for one that is not below the vocabulary.
  torch::Tensor forward(const torch::Tensor& tokens);
  // The logits [batch, vocabulary] of what follows the tokens: forward's last ones, without the work for the others.
  torch::Tensor next_token_logits(const torch::Tensor& tokens);
  // As above for the cached tokens and these after them, which the cache then has, too; together at most `context`.
  // Without gradients. With an empty cache, the logits of a prompt are those of a call without one. Later ones differ
  // in their last bits, because a product of one row adds in another order than a product of many.
  torch::Tensor next_token_logits(const torch::Tensor& tokens, KeyValueCache& cache);
  // The mean cross entropy, in nats and in fp32, of targets [batch, length], int64. The logits are never whole, and so
  // it differs from that of forward's in its last bits.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets);

  const ModelConfig& config() const { return config_; }
  // From the next forward on; changes no bit. None unless set. The layers are the model's fsdp::RecomputedModules.
  void set_recomputation(const Recomputation& recomputation);

 protected:
  // The head's input: [batch, length, width]. With a cache, the tokens follow those in it.
  virtual torch::Tensor features(const torch::Tensor& tokens, KeyValueCache* cache) = 0;
  // The head's weight [vocabulary, width], its own or the token embedding.
  virtual const torch::Tensor& head() const = 0;

 private:
  void check(const torch::Tensor& tokens, int64_t before = 0) const;

  ModelConfig config_;
};

// A model with first weights from LibTorch's default generator, on the CPU and in fp32; the base has the same with and
// without adapters. Throws fsdp::Error with all
// problems of the config.
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config);

// As above, on `device`, with parameters that have no memory until the model is sharded (fsdp/deferred_init.h). The
// numbers of its first weights are drawn then.
std::shared_ptr<LanguageModel> make_deferred_model(const ModelConfig& config, torch::Device device);

}  // namespace models
