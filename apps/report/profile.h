// A profile of some steps of a run: the traces of all ranks, and the plan of the same run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/rank_trace.h"

namespace trainer {

// The plan of the rank that holds most by it.
struct ProfilePlan {
  std::vector<std::pair<std::string, double>> memory = {};  // bytes by part, by the names of kMemoryParts
  double peak_bytes = 0;
  std::optional<double> step_seconds = std::nullopt;  // none: not known
  double idle_share = 0;                              // of the step, in a pipeline
  std::string assumed = {};                           // the assumption behind the step's time; text
};

struct Profile {
  std::string title = {}, subtitle = {};  // text
  std::vector<RankTrace> ranks = {};      // in rank order, on one time axis
  int ranks_of_replica = 1;               // that hold the model once
  std::optional<ProfilePlan> plan = std::nullopt;
  std::vector<std::string> notes = {};  // text: how the clocks of hosts were aligned
};

}  // namespace trainer
