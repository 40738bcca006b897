// A stage is full whenever its parameters are read, and its gradients are reduced once, when they are complete.
#include <utility>

#include "stages/checks.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

struct StageShards {
  bool full = false;
  int gradients = 0;  // micro-batches whose gradients were added
  int reductions = 0;
};

// The action's fault; empty if it has none. Changes the stage's state.
std::string fault_of(const StageAction& action, StageShards& stage, bool has_gathers, int micro_batches) {
  stage.gradients += adds_gradients(action.kind);
  switch (action.kind) {
    case Kind::Gather:
      if (std::exchange(stage.full, true)) return "the stage is full already, expected RESHARD before it";
      break;
    case Kind::Release:
      if (!std::exchange(stage.full, false)) return "the stage is not full, expected UNSHARD before it";
      break;
    case Kind::Reduce:
      if (stage.gradients < micro_batches)
        return fmt::format("the gradients of {} of {} micro-batches are there, expected all of them before it",
                           stage.gradients, micro_batches);
      if (++stage.reductions > 1) return "the gradients are reduced already, expected one reduction";
      break;
    default:
      if (has_gathers && reads_parameters(action.kind) && !stage.full)
        return fmt::format("the stage is not full, expected {}UNSHARD before it", action.stage);
  }
  return "";
}

bool has_kind(const StageSchedule& schedule, Kind kind) {
  for (const auto& actions : schedule.ranks) {
    for (const StageAction& action : actions) {
      if (action.kind == kind) return true;
    }
  }
  return false;
}

}  // namespace

void check_shards(const StageSchedule& schedule) {
  const bool has_gathers = has_kind(schedule, Kind::Gather), has_reductions = has_kind(schedule, Kind::Reduce);
  std::vector<StageShards> stages(schedule.rank_of_stage.size());
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const StageAction& action = schedule.at({rank, i});
      if (action.kind == Kind::Idle) continue;
      const std::string fault = fault_of(action, stages[action.stage], has_gathers, schedule.micro_batches);
      if (!fault.empty()) refuse(schedule, {rank, i}, "{}", fault);
    }
  }
  for (int i = 0; i < schedule.stages(); ++i) {
    const ActionPlace end = schedule.end_of(schedule.rank_of(i));
    if (stages[i].full) refuse(schedule, end, "stage {0} is full, expected {0}RESHARD", i);
    if (has_reductions && stages[i].reductions == 0)
      refuse(schedule, end, "{}REDUCE_GRAD is missing, expected one for each stage", i);
  }
}

}  // namespace fsdp::stages
