#include "training/step_facts.h"

#include <algorithm>
#include <cmath>

namespace trainer {

namespace {

// As numbers: the times, the two flags, then the losses. All are exact in fp64.
constexpr int64_t kBeforeLosses = 4;

torch::Tensor to_tensor(const StepFacts& facts) {
  std::vector<double> numbers = {facts.seconds, facts.wait_seconds, facts.save_is_due ? 1.0 : 0.0,
                                 static_cast<double>(facts.stop_signal)};
  numbers.insert(numbers.end(), facts.losses.begin(), facts.losses.end());
  return torch::tensor(numbers, torch::kFloat64);
}

StepFacts from_tensor(const torch::Tensor& tensor) {
  const auto number = tensor.accessor<double, 1>();
  StepFacts facts{.losses = {},
                  .seconds = number[0],
                  .wait_seconds = number[1],
                  .save_is_due = number[2] != 0,
                  .stop_signal = static_cast<int>(number[3])};
  for (int64_t i = kBeforeLosses; i < tensor.numel(); ++i) facts.losses.push_back(static_cast<float>(number[i]));
  return facts;
}

}  // namespace

std::vector<StepFacts> exchange_facts(fsdp::World& world, const StepFacts& own) {
  std::vector<StepFacts> ranks;
  for (const torch::Tensor& tensor : world.all_gather(to_tensor(own))) ranks.push_back(from_tensor(tensor));
  return ranks;
}

double mean_loss(const std::vector<StepFacts>& ranks) {
  const size_t micro_batches = ranks.front().losses.size();
  double sum = 0;
  for (size_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    for (const StepFacts& rank : ranks) sum += rank.losses[micro_batch];
  }
  return sum / static_cast<double>(micro_batches * ranks.size());
}

int rank_with_loss_not_finite(const std::vector<StepFacts>& ranks) {
  const auto not_finite = [](float loss) { return !std::isfinite(loss); };
  const auto found =
      std::ranges::find_if(ranks, [&](const StepFacts& rank) { return std::ranges::any_of(rank.losses, not_finite); });
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

int stop_signal(const std::vector<StepFacts>& ranks) {
  int signal = 0;
  for (const StepFacts& rank : ranks) signal = std::max(signal, rank.stop_signal);
  return signal;
}

}  // namespace trainer
