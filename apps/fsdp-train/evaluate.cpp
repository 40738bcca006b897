#include "evaluate.h"

#include <algorithm>

#include "data/batch.h"

namespace trainer {

double mean_loss(fsdp::World& world, const std::vector<float>& losses) {
  const std::vector<torch::Tensor> of_ranks = world.all_gather(torch::tensor(losses));
  double sum = 0;
  for (size_t micro_batch = 0; micro_batch < losses.size(); ++micro_batch) {
    for (const torch::Tensor& of_rank : of_ranks) sum += of_rank[static_cast<int64_t>(micro_batch)].item<float>();
  }
  return sum / static_cast<double>(losses.size() * of_ranks.size());
}

std::optional<double> validation_loss(gpt::Gpt& model, const data::TokenSource* tokens) {
  constexpr int64_t kWindows = 64, kBatch = 8;
  if (tokens == nullptr) return std::nullopt;
  const int64_t context = model->config().context;
  const int64_t available = (tokens->size() - 1) / context;
  if (available < 1) return std::nullopt;
  torch::NoGradGuard no_grad;
  const int64_t windows = std::min(kWindows, available);
  double sum = 0;
  for (int64_t first = 0; first < windows; first += kBatch) {
    std::vector<int64_t> starts;
    for (int64_t i = first; i < std::min(first + kBatch, windows); ++i) {
      starts.push_back(i * available / windows * context);
    }
    const data::Batch batch = data::make_batch(*tokens, starts, context, model->config().vocabulary);
    sum += model->loss(batch.tokens, batch.targets).item<double>() * static_cast<double>(starts.size());
  }
  return sum / static_cast<double>(windows);
}

}  // namespace trainer
