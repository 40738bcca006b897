#include "training/evaluate.h"

#include <algorithm>
#include <vector>

#include "data/batch.h"

namespace trainer {

namespace {

constexpr int64_t kBatch = 8;  // windows

// The first tokens of batch `number` of `windows` windows, which lie evenly among the `available` ones.
std::vector<int64_t> starts_of(int64_t number, int64_t windows, int64_t available, int64_t context) {
  std::vector<int64_t> starts;
  for (int64_t i = number * kBatch; i < std::min((number + 1) * kBatch, windows); ++i) {
    starts.push_back(i * available / windows * context);
  }
  return starts;
}

}  // namespace

std::optional<double> validation_loss(Training& training) {
  if (training.corpus.validation == nullptr) return std::nullopt;
  const data::TokenSource& tokens = *training.corpus.validation;
  const auto& [context, vocabulary] = std::pair(training.options.model.context, training.options.model.vocabulary);
  const int64_t available = (tokens.size() - 1) / context;
  if (available < 1) return std::nullopt;
  const int64_t windows = std::min(training.options.validation_windows, available);
  const int64_t batches = (windows + kBatch - 1) / kBatch, ranks = training.world.size();
  const torch::Device device = training.world.device();
  torch::NoGradGuard no_grad;
  training.model.eval();
  std::vector<double> sums;  // of the batches' losses, in their order
  // A rank for which nothing is left computes the last batch once more: gathers need all ranks.
  for (int64_t first = 0; first < batches; first += ranks) {
    const int64_t number = std::min(first + training.world.rank(), batches - 1);
    const std::vector<int64_t> starts = starts_of(number, windows, available, context);
    const data::Batch batch = data::make_batch(tokens, starts, context, vocabulary);
    const double loss = training.model.loss(batch.tokens.to(device), batch.targets.to(device)).item<double>();
    const auto all =
        training.world.all_gather(torch::tensor({loss * static_cast<double>(starts.size())}, torch::kFloat64));
    for (int64_t rank = 0; rank < std::min(ranks, batches - first); ++rank) sums.push_back(all[rank].item<double>());
  }
  training.model.train();
  double sum = 0;
  for (double one : sums) sum += one;
  return sum / static_cast<double>(windows);
}

}  // namespace trainer
