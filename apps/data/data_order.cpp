#include "data/data_order.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/permutation.h"

namespace data {

DataOrder::DataOrder(int64_t tokens, int64_t context, uint64_t seed, int64_t epochs)
    : DataOrder({{.tokens = tokens}}, context, seed, epochs) {}

DataOrder::DataOrder(const std::vector<OrderedSource>& sources, int64_t context, uint64_t seed, int64_t epochs)
    : context_(context), epochs_(epochs) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;  // sources of equal length have orders of their own
  for (const OrderedSource& source : sources) {
    parts_.push_back(
        {.first = source.first, .windows = (source.tokens - 1) / context, .seed = seed + parts_.size() * kOdd});
    windows_ += parts_.back().windows;
  }
  if (parts_.size() == 1) {
    parts_.front().of_cycle = 1;
    cycle_ = {{0, 0}};
    return;
  }
  divide_cycle(sources);
  fill_cycle();
}

// The windows of a cycle by weight; windows left by rounding go to the largest remainders (Hamilton's method).
void DataOrder::divide_cycle(const std::vector<OrderedSource>& sources) {
  const double sum = std::accumulate(sources.begin(), sources.end(), 0.0,
                                     [](double so_far, const OrderedSource& source) { return so_far + source.weight; });
  std::vector<std::pair<double, size_t>> remainders;
  int64_t left = kCycle;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const double exact = sources[i].weight / sum * kCycle;
    parts_[i].of_cycle = static_cast<int64_t>(exact);
    left -= parts_[i].of_cycle;
    remainders.emplace_back(std::floor(exact) - exact, i);  // the largest first
  }
  std::ranges::sort(remainders);
  for (int64_t i = 0; i < left; ++i) ++parts_[remainders[static_cast<size_t>(i)].second].of_cycle;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].of_cycle > 0) continue;
    throw fsdp::Error(
        fmt::format("weight {} of the {} sources is less than 1 in {} of all weights. Use a larger one, or "
                    "leave the source out.",
                    sources[i].weight, sources.size(), kCycle));
  }
}

void DataOrder::fill_cycle() {
  std::vector<int64_t> credits(parts_.size()), taken(parts_.size());
  for (int64_t slot = 0; slot < kCycle; ++slot) {
    for (size_t i = 0; i < parts_.size(); ++i) credits[i] += parts_[i].of_cycle;
    const auto next = static_cast<size_t>(std::ranges::max_element(credits) - credits.begin());
    credits[next] -= kCycle;
    cycle_.push_back({next, taken[next]++});
  }
}

int64_t DataOrder::start_at(int64_t place) const {
  const auto length = static_cast<int64_t>(cycle_.size());
  const Slot& slot = cycle_[static_cast<size_t>(place % length)];
  const Part& part = parts_[slot.part];
  const int64_t number = place / length * part.of_cycle + slot.before;  // among the windows of the part
  const fsdp::Permutation epoch(part.windows, part.seed, static_cast<uint64_t>(number / part.windows));
  return part.first + epoch.at(number % part.windows) * context_;
}

std::vector<double> DataOrder::epochs_of(int64_t windows) const {
  const auto length = static_cast<int64_t>(cycle_.size());
  const int64_t cycles = windows / length;
  std::vector<double> epochs;
  for (const Part& part : parts_) epochs.push_back(static_cast<double>(cycles * part.of_cycle));
  for (int64_t slot = 0; slot < windows % length; ++slot) ++epochs[cycle_[static_cast<size_t>(slot)].part];
  for (size_t i = 0; i < parts_.size(); ++i) epochs[i] /= static_cast<double>(parts_[i].windows);
  return epochs;
}

std::optional<int64_t> DataOrder::steps(const StepShape& shape) const {
  if (epochs_ == 0) return std::nullopt;
  const int64_t whole = epochs_ / shape.windows(), rest = epochs_ % shape.windows();  // the product may not fit
  return windows_ * whole + windows_ * rest / shape.windows();
}

std::string DataOrder::problem(const StepShape& shape, int64_t steps) const {
  const std::optional<int64_t> lasts = this->steps(shape);
  if (!lasts || steps <= *lasts) return "";
  return fmt::format(
      "the data lasts {} steps, and the run has {}: there are {} windows of context {}, each visited {}, and a step "
      "takes "
      "{}. Use more data, more epochs or fewer steps.",
      *lasts, steps, windows_, context_, epochs_ == 1 ? "once" : fmt::format("{} times", epochs_), shape.windows());
}

std::vector<int64_t> DataOrder::window_starts(const StepShape& shape, int64_t step, int64_t rank,
                                              int64_t micro_batch) const {
  if (const std::string found = problem(shape, step + 1); !found.empty()) throw fsdp::Error(found);
  const int64_t number = (step * shape.micro_batches + micro_batch) * shape.ranks + rank;  // in the whole job
  std::vector<int64_t> starts;
  for (int64_t place = number * shape.batch; place < (number + 1) * shape.batch; ++place) {
    starts.push_back(start_at(place));
  }
  return starts;
}

}  // namespace data
