#include "deferred/needed_operators.h"

#include <algorithm>

namespace fsdp::deferred {

std::vector<size_t> needed_operators(const std::vector<RecordedOperator>& operators, std::set<int> storages,
                                     size_t end) {
  std::vector<size_t> needed;
  for (size_t i = end; i-- > 0 && !storages.empty();) {
    const RecordedOperator& recorded = operators[i];
    if (std::ranges::none_of(recorded.writes, [&](int storage) { return storages.contains(storage); })) continue;
    needed.push_back(i);
    for (int storage : recorded.replaces) storages.erase(storage);
    storages.insert(recorded.reads.begin(), recorded.reads.end());
  }
  std::ranges::reverse(needed);
  return needed;
}

}  // namespace fsdp::deferred
