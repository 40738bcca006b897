#include "stages/rewrites.h"
#include "stages/validate.h"

namespace fsdp::stages {

StageSchedule join_backwards(const StageSchedule& schedule) {
  validate(schedule);
  StageSchedule result = schedule;
  for (std::vector<StageAction>& actions : result.ranks) {
    std::vector<StageAction> joined;
    for (const StageAction& action : actions) {
      const bool completes = action.kind == StageAction::Kind::WeightGradient && !joined.empty() &&
                             joined.back().kind == StageAction::Kind::InputGradient &&
                             joined.back().stage == action.stage && joined.back().micro_batch == action.micro_batch;
      if (completes) {
        joined.back().kind = StageAction::Kind::Backward;
        joined.back().with_next = action.with_next;
      } else {
        joined.push_back(action);
      }
    }
    actions = std::move(joined);
  }
  return result;
}

}  // namespace fsdp::stages
