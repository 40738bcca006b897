#include "data/data_order.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include "data/permutation.h"

namespace data {

DataOrder::DataOrder(int64_t tokens, int64_t context, uint64_t seed, int64_t epochs)
    : context_(context), windows_((tokens - 1) / context), seed_(seed), epochs_(epochs) {}

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
    const Permutation epoch(windows_, seed_, static_cast<uint64_t>(place / windows_));
    starts.push_back(epoch.at(place % windows_) * context_);
  }
  return starts;
}

}  // namespace data
