#include "generation/generate.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <vector>

namespace trainer {

namespace {

// One of the logits' indices, logits [vocabulary].
int32_t draw(const torch::Tensor& logits, const Options& options, at::Generator& generator) {
  if (options.temperature == 0.0) return static_cast<int32_t>(logits.argmax().item<int64_t>());
  const int64_t count = options.top_k == 0 ? logits.numel() : std::min(options.top_k, logits.numel());
  auto [values, indices] = logits.topk(count);
  auto chosen = torch::multinomial(torch::softmax((values - values[0]) / options.temperature, 0), 1, false, generator);
  return static_cast<int32_t>(indices[chosen.item<int64_t>()].item<int64_t>());
}

// [1, length], the last `context` of them
torch::Tensor last_of(const std::vector<int32_t>& tokens, int64_t context) {
  const auto length = std::min(static_cast<int64_t>(tokens.size()), context);
  return torch::tensor(std::vector<int64_t>(tokens.end() - length, tokens.end())).unsqueeze(0);
}

std::vector<int32_t> first_tokens(const tokenizers::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> tokens = tokenizer.encode(prompt);
  if (!tokens.empty()) return tokens;
  if (const auto end = tokenizer.end_of_text()) return {*end};
  return tokenizer.encode("\n");
}

}  // namespace

std::string generate(models::LanguageModel& model, const tokenizers::Tokenizer& tokenizer, const Options& options,
                     torch::Device device) {
  torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(options.seed));
  std::vector<int32_t> tokens = first_tokens(tokenizer, options.prompt);
  const std::optional<int32_t> end = tokenizer.end_of_text();
  for (int64_t i = 0; i < options.sample_length; ++i) {
    const torch::Tensor logits = model.next_token_logits(last_of(tokens, model.config().context).to(device));
    // A model may know more tokens than the tokenizer; what it has not learned is not to be decoded.
    const int64_t known = std::min(logits.size(1), tokenizer.vocabulary());
    const torch::Tensor scores = logits[0].narrow(0, 0, known).to(torch::kCPU, torch::kFloat32);
    if (!scores.isfinite().all().item<bool>()) break;  // of a model that has come to grief
    const int32_t token = draw(scores, options, generator);
    if (token == end) break;
    tokens.push_back(token);
  }
  model.train(was_training);
  return tokenizer.decode(tokens);
}

}  // namespace trainer
