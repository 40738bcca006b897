// Schedules for tests.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "stages/schedules.h"
#include "stages/timing.h"

namespace fsdp::stages {

// The actions of a rank as text.
inline std::vector<std::string> texts_of(const std::vector<StageAction>& actions) {
  std::vector<std::string> texts;
  for (const StageAction& action : actions) texts.push_back(to_string(action));
  return texts;
}

// Counts of ranks, stages per rank and micro-batches.
struct Counts {
  int ranks = 1, stages_per_rank = 1, micro_batches = 1;

  std::string text() const {
    return std::to_string(ranks) + " ranks, " + std::to_string(stages_per_rank) + " stages per rank, " +
           std::to_string(micro_batches) + " micro-batches";
  }
};

// Calls `check` with the schedule of all counts up to these that it can have.
inline void for_all_counts(const NamedSchedule& named, Counts most,
                           const std::function<void(Counts, const StageSchedule&)>& check) {
  for (int ranks = 1; ranks <= most.ranks; ++ranks) {
    for (int stages_per_rank = 1; stages_per_rank <= most.stages_per_rank; ++stages_per_rank) {
      if (named.name == "OneForwardOneBackward" && stages_per_rank > 1) continue;
      for (int micro_batches = 1; micro_batches <= most.micro_batches; ++micro_batches)
        check({ranks, stages_per_rank, micro_batches}, named.generate(ranks, stages_per_rank, micro_batches));
    }
  }
}

inline std::vector<StageTimes> equal_times(const StageSchedule& schedule, StageTimes times) {
  return std::vector<StageTimes>(schedule.rank_of_stage.size(), times);
}

// The timing with the same times for each stage, without messages.
inline StageTiming timing_with(const StageSchedule& schedule, StageTimes times) {
  return timing_of(schedule, equal_times(schedule, times));
}

// A schedule that some run of its ranks performs: passes in a random order in which each has its input.
StageSchedule random_schedule(std::mt19937& random);

// An independent verdict: a schedule is a graph, of which all edges have to point one way.
bool is_valid(const StageSchedule& schedule);

}  // namespace fsdp::stages
