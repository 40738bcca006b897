// Tokens that a model writes, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/key_value_cache.h"
#include "models/language_model.h"
#include "options/options.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

// A prompt's tokens: those of --prompt, or of an empty one the token that ends a text, or a newline.
std::vector<int32_t> prompt_tokens(const tokenizers::Tokenizer& tokenizer, const std::string& prompt);

// The model that writes, by its calls.
struct WritingModel {
  // A whole model, which outlives it.
  WritingModel(models::LanguageModel& model);  // NOLINT(google-explicit-constructor)
  WritingModel(const models::ModelConfig& config, torch::nn::Module& module) : config(config), module(module) {}

  const models::ModelConfig& config;
  torch::nn::Module& module;  // or this rank's part of it
  // As LanguageModel::next_token_logits.
  std::function<torch::Tensor(const torch::Tensor& tokens, models::KeyValueCache& cache)> next_token_logits;
};

// The model and the tokenizer have to outlive it; the model is in evaluation mode meanwhile, and in its own again
// afterwards. Where the model is sharded, every rank has a Writer and makes the calls; all of them get the same tokens.
class Writer {
 public:
  Writer(WritingModel model, const tokenizers::Tokenizer& tokenizer, std::vector<int32_t> prompt,
         const WritingOptions& options, torch::Device device);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Writes the continuation of the prompt: at most --sample-length tokens, drawn with --temperature and --top-k. It has
  // its own generator, so they depend only on the weights and the seed. They are fewer if the model ends the text, or
  // if its logits are not finite. Where the context is full, its older half is forgotten. Returns how many there were.
  int64_t write(uint64_t seed, const std::function<void(int32_t)>& take);
  // Returns whether the last write() ended because the logits are not finite.
  bool logits_not_finite() const { return logits_not_finite_; }

 private:
  torch::Tensor scores_after(std::vector<int32_t>::const_iterator first, std::vector<int32_t>::const_iterator last);
  torch::Tensor scores_of_prompt();
  torch::Tensor scores_of_next(const std::vector<int32_t>& tokens);

  WritingModel model_;
  const WritingOptions& options_;
  torch::Device device_;
  bool was_training_, logits_not_finite_ = false;
  int64_t known_;  // tokens: a model may know more than the tokenizer, which it has not learned
  std::optional<int32_t> end_;
  std::vector<int32_t> prompt_;
  torch::Tensor prompt_scores_;  // undefined until they are needed
  int64_t prompt_length_ = 0;    // of the prompt in the cache; 0: it is not there
  models::KeyValueCache cache_;
};

}  // namespace trainer
