#include "training/step_facts.h"

#include <algorithm>
#include <cmath>

namespace trainer {

namespace {

// As numbers: the times, the flag, how many losses there are, then these, and zeros behind them. All are exact in fp64.
constexpr int64_t kBeforeLosses = 4;

torch::Tensor to_tensor(const StepFacts& facts, int64_t most) {
  std::vector<double> numbers = {facts.seconds, facts.wait_seconds, facts.save_is_due ? 1.0 : 0.0,
                                 static_cast<double>(facts.losses.size())};
  numbers.insert(numbers.end(), facts.losses.begin(), facts.losses.end());
  numbers.resize(static_cast<size_t>(kBeforeLosses + most));
  return torch::tensor(numbers, torch::kFloat64);
}

StepFacts from_tensor(const torch::Tensor& tensor) {
  const auto number = tensor.accessor<double, 1>();
  StepFacts facts{.losses = {}, .seconds = number[0], .wait_seconds = number[1], .save_is_due = number[2] != 0};
  const int64_t end = kBeforeLosses + static_cast<int64_t>(number[3]);
  for (int64_t i = kBeforeLosses; i < end; ++i) facts.losses.push_back(static_cast<float>(number[i]));
  return facts;
}

}  // namespace

std::vector<StepFacts> exchange_facts(fsdp::World& world, const StepFacts& own, int64_t most) {
  std::vector<StepFacts> ranks;
  for (const torch::Tensor& tensor : world.all_gather(to_tensor(own, most))) ranks.push_back(from_tensor(tensor));
  return ranks;
}

double mean_loss(const std::vector<StepFacts>& ranks, int ranks_of_replica) {
  const size_t micro_batches = ranks.front().losses.size();
  double sum = 0;
  size_t count = 0;
  for (size_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    for (size_t rank = 0; rank < ranks.size(); rank += static_cast<size_t>(ranks_of_replica)) {
      const std::vector<float>& losses = ranks[rank].losses;
      if (micro_batch >= losses.size()) continue;
      sum += losses[micro_batch];
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

int rank_with_loss_not_finite(const std::vector<StepFacts>& ranks) {
  const auto not_finite = [](float loss) { return !std::isfinite(loss); };
  const auto found =
      std::ranges::find_if(ranks, [&](const StepFacts& rank) { return std::ranges::any_of(rank.losses, not_finite); });
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

int agreed_signal(fsdp::World& world, int own) {
  int64_t signal = 0;
  for (const torch::Tensor& rank : world.all_gather(torch::tensor({static_cast<int64_t>(own)}, torch::kInt64))) {
    signal = std::max(signal, rank.item<int64_t>());
  }
  return static_cast<int>(signal);
}

}  // namespace trainer
