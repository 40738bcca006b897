// The time of traced steps by its use, on each rank and for each unit.
//
// Each moment of a step counts once. A wait counts before anything else, then idle time of a pipeline, then
// computation. The part of a wait before the last rank has begun the same exchange is a wait for that rank. The part
// after it is exposed communication: it is what hides behind computation if there is enough of it.
#pragma once

#include <string>
#include <vector>

#include "report/rank_trace.h"

namespace trainer {

// Seconds.
struct TimeShares {
  double computation = 0;
  double exposed = 0;  // communication that no computation hides
  double waiting = 0;  // for the slowest rank
  double idle = 0;     // in a pipeline, for other stages
  double others = 0;   // all else of a step: data, losses, norms, records

  double sum() const { return computation + exposed + waiting + idle + others; }
  void add(const TimeShares& more);
  TimeShares divided_by(double divisor) const;
};

struct NamedShares {
  std::string name;
  TimeShares time;
};

// The name in `units` for the time of no single unit.
inline constexpr const char* kAllUnits = "all units";

struct StepShares {
  int64_t steps = 0;                    // whole ones, on all ranks
  TimeShares mean = {};                 // of a rank, per step; the sum is the mean step
  std::vector<NamedShares> ranks = {};  // per step, by rank
  std::vector<NamedShares> units = {};  // per rank and step, in the order of their first use; without `others`
  std::vector<double> waited_for = {};  // seconds per step that all ranks together waited for each rank
};

// The ranks' traces in rank order, on one time axis. Neighbours of a model that is divided among `ranks_of_replica`
// ranks exchange nothing of a unit with each other.
StepShares step_shares(const std::vector<RankTrace>& ranks, int ranks_of_replica = 1);

}  // namespace trainer
