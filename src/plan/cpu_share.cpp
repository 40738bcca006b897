#include "plan/cpu_share.h"

#include <cmath>
#include <iterator>

namespace fsdp::plan {

double rate_at(const RatesBySize& rates, double size) {
  const auto above = rates.lower_bound(size);
  if (above == rates.end()) return rates.rbegin()->second;
  if (above == rates.begin()) return above->second;
  const auto below = std::prev(above);
  const double share = std::log(size / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

const CpuShare* share_of(std::span<const CpuShare> shares, int64_t ranks, int64_t element) {
  const CpuShare* found = nullptr;
  for (const CpuShare& share : shares) {
    if (share.element != element) continue;
    const bool has_room = share.ranks >= ranks, found_has_room = found != nullptr && found->ranks >= ranks;
    const bool is_nearer = found == nullptr || (has_room && (!found_has_room || share.ranks < found->ranks)) ||
                           (!found_has_room && share.ranks > found->ranks);
    if (is_nearer) found = &share;
  }
  return found;
}

}  // namespace fsdp::plan
