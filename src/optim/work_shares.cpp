#include "optim/work_shares.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fsdp::optim {

std::vector<int> WorkShares::assign(const std::vector<int64_t>& work) {
  std::vector<size_t> order(work.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return work[a] > work[b]; });
  std::vector<int64_t> here(so_far_.size());
  std::vector<size_t> ranks(so_far_.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  std::vector<int> assigned(work.size());
  for (size_t i : order) {
    const size_t rank = *std::ranges::min_element(
        ranks, [&](size_t a, size_t b) { return std::pair(here[a], so_far_[a]) < std::pair(here[b], so_far_[b]); });
    assigned[i] = static_cast<int>(rank);
    here[rank] += work[i];
    so_far_[rank] += work[i];
  }
  return assigned;
}

}  // namespace fsdp::optim
