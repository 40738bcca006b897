// The common part of all language models here. Plain torch::nn code: nothing knows that a model can be sharded.
#pragma once

#include <fsdp/activation_checkpoint.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/division.h"
#include "models/key_value_cache.h"
#include "models/model_blocks.h"
#include "models/model_config.h"
#include "models/recomputation.h"

namespace models {

// Owned as any torch::nn::Module; one thread at a time. In training mode, which a new model is in, dropout draws from
// LibTorch's default generator where the config asks for dropout: after torch::manual_seed a pass draws the same.
//
// A divided model (division.h) runs its forwards and backwards on all ranks of the axis, with the same tokens and with
// generators of the same state. Its logits have no gradients.
class LanguageModel : public torch::nn::Module {
 public:
  LanguageModel(ModelConfig config, Division division) : config_(std::move(config)), division_(std::move(division)) {}

  // Logits [batch, length, vocabulary] for tokens [batch, length], int64, 1 <= length <= context. Throws fsdp::Error
  // for tokens of another shape, and LibTorch's error for one that is not below the vocabulary.
  torch::Tensor forward(const torch::Tensor& tokens);
  // The logits [batch, vocabulary] of what follows the tokens: forward's last ones, without the work for the others.
  torch::Tensor next_token_logits(const torch::Tensor& tokens);
  // As above for the cached tokens and these after them, which the cache then has, too; together at most `context`.
  // Without gradients. With an empty cache, the logits of a prompt are those of a call without one. Later ones differ
  // in their last bits, because a product of one row adds in another order than a product of many. With
  // sequence_parallel the cache saves no work: it holds the tokens, and all of them run again.
  torch::Tensor next_token_logits(const torch::Tensor& tokens, KeyValueCache& cache);
  // Called before each block of a pass, with its number in models::blocks(config): a caller that seeds the generators
  // has the numbers of a pipeline's blocks. The loss is the block behind the head.
  using BeforeBlock = std::function<void(int block)>;
  // The mean cross entropy, in nats and in fp32, of targets [batch, length], int64. The logits are never whole, and so
  // it differs from that of forward's in its last bits.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets, const BeforeBlock& before_block = {});

  const ModelConfig& config() const { return config_; }
  const Division& division() const { return division_; }
  // From the next forward on; changes no bit. None unless set. The layers are the model's fsdp::RecomputedModules.
  void set_recomputation(const Recomputation& recomputation);
  // The module of a block of models::blocks(config); null for a head that is the token embedding.
  std::shared_ptr<torch::nn::Module> block(int number) const { return blocks_.at(static_cast<size_t>(number)); }

 protected:
  // At the end of the constructor: finds the modules of the blocks, which have these forwards, by their names.
  void set_blocks(std::vector<BlockForward> forwards);

 private:
  void check(const torch::Tensor& tokens, int64_t before = 0) const;
  // The head's input: [batch, length, width]. With a cache, the tokens follow those in it.
  torch::Tensor features(const torch::Tensor& tokens, KeyValueCache* cache, const BeforeBlock& before_block = {});
  // As `features`, for any length and without a cache.
  torch::Tensor features_of_any(const torch::Tensor& tokens);
  // The head's weight [vocabulary, width], its own or the token embedding. If it is divided, this rank's rows.
  torch::Tensor head() const;

  ModelConfig config_;
  Division division_;
  std::vector<BlockForward> forwards_;
  std::vector<std::shared_ptr<torch::nn::Module>> blocks_;
};

// Throws fsdp::Error with all problems of the config and the division.
void check_model(const ModelConfig& config, const Division& division);

// A model with first weights from LibTorch's default generator, on the CPU and in fp32; the base has the same with and
// without adapters, and whole or divided. Throws fsdp::Error as check_model does.
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, const Division& division = {});

// As above, on `device`, with parameters that have no memory until the model is sharded (fsdp/deferred_init.h). The
// numbers of its first weights are drawn then.
std::shared_ptr<LanguageModel> make_deferred_model(const ModelConfig& config, torch::Device device,
                                                   const Division& division = {});

}  // namespace models
