#include "training/restart_policy.h"

#include <algorithm>

#include "options/rank_range.h"

namespace trainer {

int64_t ranks_after(const Failed& failed, const RunOptions& options) {
  if (failed.restarts >= options.restarts()) return 0;
  const auto range = rank_range_in(options.elastic);
  return range ? std::clamp(failed.ranks - failed.lost, range->least, range->most) : failed.ranks;
}

}  // namespace trainer
