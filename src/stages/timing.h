// A step of a schedule in time: the durations of its passes instead of tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "stages/stage_schedule.h"

namespace fsdp::stages {

// How long the passes of one stage take, in any unit. A whole backward takes as long as its two parts.
struct StageTimes {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;

  double sum() const { return forward + input_gradient + weight_gradient; }
  StageTimes& operator+=(const StageTimes& other);
};

// The number of passes among the actions of a rank.
size_t count_passes(const std::vector<StageAction>& actions);
// The sums of the passes of a rank, by kind. `pass_times` has an entry per pass, in the order of the actions. A whole
// backward counts as input gradient. Throws Error for another number of times.
StageTimes sum_of_passes(const std::vector<StageAction>& actions, const std::vector<double>& pass_times);

struct StageTiming {
  struct Interval {
    double start = 0, end = 0;
  };
  std::vector<std::vector<Interval>> intervals;  // of each action, by rank and position
  double makespan = 0;                           // the end of the last pass
  std::vector<double> idle_shares;               // of each rank: the share of the makespan without a pass
  double idle_share = 0;                         // their mean
  // The most micro-batches whose activations are held at once. A micro-batch counts from the beginning of its forward
  // to the end of its backward, weight gradient included.
  std::vector<int> peak_of_stage;
  std::vector<int> peak_of_rank;  // over all stages of the rank
};

// `times` has an entry per stage. A result is on another rank `message_time` after its pass. Messages take no time of
// the ranks: a rank waits for a result only where a pass needs it, so a schedule takes as long with messages as
// without. Gathers, releases and reductions take none either. Passes that share a cell are timed one after the other.
// Throws as `validate` does, and for times that are negative or not finite.
StageTiming timing_of(const StageSchedule& schedule, const std::vector<StageTimes>& times, double message_time = 0);
// `pass_times` has an entry per pass: those of the first rank in its order, then those of the next.
StageTiming timing_of_passes(const StageSchedule& schedule, const std::vector<double>& pass_times,
                             double message_time = 0);

}  // namespace fsdp::stages
