// The best setting of a run under a limit of memory. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planning/plan_numbers.h"
#include "planning/search_space.h"

namespace trainer {

// The best setting is the one with the shortest step, or with the cheapest: seconds times ranks.
enum class SearchGoal { Time, Money };

struct SearchWish {
  std::vector<int64_t> ranks = {};  // numbers of ranks to choose from; empty: that of the options
  SearchGoal goal = SearchGoal::Time;
  size_t kept = 6;             // settings that are certainly the best ones; 0: all settings are tried
  size_t kept_too_large = 3;   // settings that do not fit; 0: all
  bool keeps_batches = false;  // --batch and --micro-batches stay as well if they are given
};

struct TriedSetting {
  std::string options;  // "--strategy full-shard --batch 2 --micro-batches 4 --activation-checkpoint none"
  std::string name;     // the setting in words: "full-shard, 4 micro-batches of 2, recomputes all"
  SearchSetting setting = {};
  PlanNumbers numbers = {};

  double device_seconds() const { return numbers.time.value().step * static_cast<double>(setting.ranks); }
};

struct SearchResult {
  std::vector<TriedSetting> fitting;    // the best first; of equally good ones, that with the smallest peak
  std::vector<TriedSetting> too_large;  // some that do not fit, the smallest peak first
  size_t settings = 0;                  // of the space
  size_t unfit = 0;                     // found not to fit; the memory of some was not computed
  size_t left_out = 0;                  // settings that cannot be among the best, whatever their memory is
};

// Tries settings in the order of the least time that they can take. Settings that fit are simulated, and so are the
// too large ones that are kept. The search ends when none of the rest can be among the best. The tokens per step stay
// as `options`, resolved, have them. Throws fsdp::Error for a run whose time is not simulated.
SearchResult search(const PlanTarget& target, const RunOptions& options, SearchWish wish = {});

// Why the setting loses against the best: a sentence.
std::string why_worse(const TriedSetting& setting, const TriedSetting& best, SearchGoal goal);

}  // namespace trainer
