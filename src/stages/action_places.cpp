#include "stages/action_places.h"

#include "base/error.h"

namespace fsdp::stages {
namespace {

uint64_t key_of(StageAction::Kind kind, int stage, int micro_batch) {
  return (static_cast<uint64_t>(kind) * kMostNumber + static_cast<uint64_t>(stage)) * kMostNumber +
         static_cast<uint64_t>(micro_batch);
}

}  // namespace

ActionPlaces::ActionPlaces(const StageSchedule& schedule) {
  for (int rank = 0; rank < schedule.rank_count(); ++rank) {
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const StageAction& action = schedule.at({rank, i});
      if (action.kind != StageAction::Kind::Idle) add(schedule, {rank, i}, action);
    }
  }
}

void ActionPlaces::add(const StageSchedule& schedule, ActionPlace place, const StageAction& action) {
  const bool is_known = action.stage >= 0 && action.stage < schedule.stages();
  if (!is_known) refuse(schedule, place, "expected a stage from 0 to {}", schedule.stages() - 1);
  const int holder = schedule.rank_of(action.stage);
  if (holder != place.rank)
    refuse(schedule, place, "stage {} lies on rank {}, expected all its actions there", action.stage, holder);
  if (!is_pass(action.kind) && !is_message(action.kind)) return;
  if (action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches)
    refuse(schedule, place, "expected a micro-batch from 0 to {}", schedule.micro_batches - 1);
  const auto [known, is_new] = places_.try_emplace(key_of(action.kind, action.stage, action.micro_batch), place);
  if (!is_new) refuse(schedule, place, "stands at position {} too, expected each action once", known->second.position);
}

const ActionPlace* ActionPlaces::find(StageAction::Kind kind, int stage, int micro_batch) const {
  const auto found = places_.find(key_of(kind, stage, micro_batch));
  return found == places_.end() ? nullptr : &found->second;
}

const ActionPlace* ActionPlaces::find_backward(int stage, int micro_batch) const {
  const ActionPlace* whole = find(StageAction::Kind::Backward, stage, micro_batch);
  return whole ? whole : find(StageAction::Kind::InputGradient, stage, micro_batch);
}

}  // namespace fsdp::stages
