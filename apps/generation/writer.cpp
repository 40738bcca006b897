#include "generation/writer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace trainer {

namespace {

// One of the scores' indices, scores [vocabulary].
int32_t draw_token(const torch::Tensor& scores, const WritingOptions& options, at::Generator& generator) {
  if (options.temperature == 0.0) return static_cast<int32_t>(scores.argmax().item<int64_t>());
  const int64_t count = options.top_k == 0 ? scores.numel() : std::min(options.top_k, scores.numel());
  auto [values, indices] = scores.topk(count);
  // The scores are fp32, in which a lower temperature may be 0. Below this one the likeliest is certain.
  const double temperature = std::max<double>(options.temperature, std::numeric_limits<float>::min());
  auto chosen = torch::multinomial(torch::softmax((values - values[0]) / temperature, 0), 1, false, generator);
  return static_cast<int32_t>(indices[chosen.item<int64_t>()].item<int64_t>());
}

}  // namespace

std::vector<int32_t> prompt_tokens(const tokenizers::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> tokens = tokenizer.encode(prompt);
  if (!tokens.empty()) return tokens;
  if (const auto end = tokenizer.end_of_text()) return {*end};
  return tokenizer.encode("\n");
}

WritingModel::WritingModel(models::LanguageModel& model)
    : config(model.config()),
      module(model),
      next_token_logits([&model](const torch::Tensor& tokens, models::KeyValueCache& cache) {
        return model.next_token_logits(tokens, cache);
      }) {}

Writer::Writer(WritingModel model, const tokenizers::Tokenizer& tokenizer, std::vector<int32_t> prompt,
               const WritingOptions& options, torch::Device device)
    : model_(std::move(model)),
      options_(options),
      device_(device),
      was_training_(model_.module.is_training()),
      known_(std::min(model_.config.vocabulary, tokenizer.vocabulary())),
      end_(tokenizer.end_of_text()),
      prompt_(std::move(prompt)),
      cache_(model_.config.layers) {
  model_.module.eval();
}

Writer::~Writer() { model_.module.train(was_training_); }

int64_t Writer::write(uint64_t seed, const std::function<void(int32_t)>& take) {
  torch::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<int32_t> tokens = prompt_;
  int64_t written = 0;
  for (; written < options_.sample_length; ++written) {
    const torch::Tensor scores = written == 0 ? scores_of_prompt() : scores_of_next(tokens);
    logits_not_finite_ = !scores.isfinite().all().item<bool>();
    if (logits_not_finite_) break;
    const int32_t token = draw_token(scores, options_, generator);
    if (token == end_) break;
    take(token);
    tokens.push_back(token);
  }
  return written;
}

torch::Tensor Writer::scores_after(std::vector<int32_t>::const_iterator first,
                                   std::vector<int32_t>::const_iterator last) {
  const torch::Tensor tokens = torch::tensor(std::vector<int64_t>(first, last)).unsqueeze(0).to(device_);
  return model_.next_token_logits(tokens, cache_)[0].narrow(0, 0, known_).to(torch::kCPU, torch::kFloat32);
}

torch::Tensor Writer::scores_of_prompt() {
  cache_.truncate(prompt_length_);
  if (prompt_length_ > 0) return prompt_scores_;
  prompt_length_ = std::min(static_cast<int64_t>(prompt_.size()), model_.config.context);
  return prompt_scores_ = scores_after(prompt_.end() - prompt_length_, prompt_.end());
}

torch::Tensor Writer::scores_of_next(const std::vector<int32_t>& tokens) {
  const int64_t context = model_.config.context;
  if (cache_.length() < context) return scores_after(tokens.end() - 1, tokens.end());
  // Positions are those of the first tokens again, so all that is kept has to be computed anew: now and then, for half
  // of the context, instead of for each token.
  cache_.truncate(0);
  prompt_length_ = 0;
  return scores_after(tokens.end() - std::max<int64_t>(context / 2, 1), tokens.end());
}

}  // namespace trainer
