#include "sample.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <vector>

namespace trainer {

namespace {

// One of the logits' indices, logits [vocabulary].
int64_t draw(torch::Tensor logits, const Options& options, at::Generator& generator) {
  if (options.temperature == 0.0) return logits.argmax().item<int64_t>();
  const int64_t count = options.top_k == 0 ? logits.numel() : std::min(options.top_k, logits.numel());
  auto [values, indices] = logits.topk(count);
  auto chosen = torch::multinomial(torch::softmax(values / options.temperature, 0), 1, false, generator);
  return indices[chosen.item<int64_t>()].item<int64_t>();
}

torch::Tensor last_bytes(const std::string& text, int64_t context) {
  const size_t length = std::min(text.size(), static_cast<size_t>(context));
  std::vector<int64_t> tokens;
  for (size_t i = text.size() - length; i < text.size(); ++i) tokens.push_back(static_cast<unsigned char>(text[i]));
  return torch::tensor(tokens).unsqueeze(0);
}

}  // namespace

std::string sample(gpt::Gpt& model, const Options& options) {
  torch::NoGradGuard no_grad;
  // A generator of its own: what is drawn depends on the seed alone, not on what the run drew before.
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(options.seed));
  std::string text = options.prompt;
  for (int64_t i = 0; i < options.sample_length; ++i) {
    auto logits = model->forward(last_bytes(text, model->config().context));
    text.push_back(static_cast<char>(draw(logits[0][-1].to(torch::kCPU, torch::kFloat32), options, generator)));
  }
  return text;
}

}  // namespace trainer
