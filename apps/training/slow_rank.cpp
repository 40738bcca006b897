#include "training/slow_rank.h"

#include <algorithm>
#include <iterator>

namespace trainer {

namespace {

// The lower median: of two ranks that of the faster one, so that the slower one shows.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<SlowRank> SlowRankFinder::step(const std::vector<double>& busy_seconds) {
  for (size_t rank = 0; rank < busy_seconds_.size(); ++rank) busy_seconds_[rank].push_back(busy_seconds[rank]);
  if (busy_seconds_.front().size() < kSteps) return std::nullopt;
  std::vector<double> medians;
  for (std::vector<double>& of_rank : busy_seconds_) {
    medians.push_back(median(of_rank));
    of_rank.clear();
  }
  const auto slowest = std::ranges::max_element(medians);
  const double usual = median(medians);
  const SlowRank found{.rank = static_cast<int>(slowest - medians.begin()), .times = *slowest / usual};
  if (*slowest < kTimes * usual || *slowest < usual + kSeconds) {
    told_ = -1;
    return std::nullopt;
  }
  if (found.rank == told_) return std::nullopt;
  told_ = found.rank;
  return found;
}

}  // namespace trainer
