// Where each pass and each message of a schedule stands.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "stages/refusal.h"

namespace fsdp::stages {

class ActionPlaces {
 public:
  // Refuses an action that stands twice, or on another rank than its stage.
  explicit ActionPlaces(const StageSchedule& schedule);

  // Null if the schedule has no such action.
  const ActionPlace* find(StageAction::Kind kind, int stage, int micro_batch) const;
  // The Backward or the InputGradient.
  const ActionPlace* find_backward(int stage, int micro_batch) const;

 private:
  void add(const StageSchedule& schedule, ActionPlace place, const StageAction& action);

  std::unordered_map<uint64_t, ActionPlace> places_;  // by kind, stage and micro-batch
};

}  // namespace fsdp::stages
