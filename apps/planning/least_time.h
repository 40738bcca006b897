// The seconds that a planned step takes at least (src/plan/least_step.h), for many settings of a run. Pure.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plan/least_step.h"
#include "planning/search_space.h"

namespace trainer {

// Keeps what settings have in common. One thread at a time.
class LeastTimes {
 public:
  // Both outlive it.
  LeastTimes(const PlanTarget& target, const RunOptions& options) : target_(target), options_(options) {}

  // 0 for engines of others, and on CPUs.
  double seconds(const SearchSetting& setting);

 private:
  // The blocks of a tensor rank, in time.
  struct TimedBlocks {
    std::vector<fsdp::plan::Block> blocks;
    std::vector<fsdp::plan::BlockTimes> times;
  };
  using BlocksKey = std::tuple<int64_t, bool, bool, int64_t, std::string, int64_t, int64_t>;

  const TimedBlocks& blocks_of(const SearchSetting& setting, const RunOptions& run);
  const std::vector<int>& cuts_of(const RunOptions& run);

  const PlanTarget& target_;
  const RunOptions& options_;
  std::map<BlocksKey, TimedBlocks> blocks_;
  std::map<int64_t, std::vector<int>> cuts_;  // by stages
};

}  // namespace trainer
