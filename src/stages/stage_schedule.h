// A schedule of a pipeline: the actions of each rank in one step, in order. A schedule is data: the engine runs it, the
// planner times it, and a trace is compared with it. Pure; not for concurrent use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/stage_action.h"

namespace fsdp::stages {

// The place of an action: its rank, and its position in the rank's list, from 0.
struct ActionPlace {
  int rank = 0;
  size_t position = 0;
};

struct StageSchedule {
  std::vector<std::vector<StageAction>> ranks;  // each rank's actions; idle cells only keep a grid's columns in line
  std::vector<int> rank_of_stage;               // -1: no rank has an action of this stage
  int micro_batches = 0;

  int rank_count() const { return static_cast<int>(ranks.size()); }
  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  int rank_of(int stage) const { return rank_of_stage[stage]; }
  const StageAction& at(ActionPlace place) const { return ranks[place.rank][place.position]; }
  // Behind the rank's last action.
  ActionPlace end_of(int rank) const { return {rank, ranks[rank].size()}; }
  bool operator==(const StageSchedule&) const = default;
};

// A line per rank, and a cell per action. Actions that run at the same time share a cell: "(0F7;7B3)OVERLAP_F_B".
std::string to_csv(const StageSchedule& schedule);

// Reads such a text. A stage lies on the first rank that has an action of it, and the number of micro-batches is that
// of the text. Throws Error, with row and column counted from 1, for a cell that is no action. `validate` checks the
// rest.
StageSchedule read_csv(std::string_view text);

// The actions from `position` on that run at the same time; one, unless PyTorch's OVERLAP_F_B joins several.
std::span<const StageAction> together(const std::vector<StageAction>& actions, size_t position);

StageSchedule without_idle(StageSchedule schedule);

// True if the schedule has sends or receives.
bool has_messages(const StageSchedule& schedule);

}  // namespace fsdp::stages
