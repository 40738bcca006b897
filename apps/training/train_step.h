// One step of training, from its data to the new weights.
#pragma once

#include <string>
#include <vector>

#include "metrics/step_record.h"
#include "training/step_clock.h"
#include "training/step_facts.h"
#include "training/training.h"

namespace trainer {

struct StepOutcome {
  StepRecord record;             // of what the step computed
  std::vector<StepFacts> ranks;  // what all ranks told
  std::string event;             // what a person should know of; empty: nothing
};

// `own` is filled in and told to the other ranks. A step whose loss or gradient is not finite changes no parameter;
// with --on-nonfinite stop it throws fsdp::Error, the same on every rank. A collective.
// The host waits for a GPU once, before it decides.
StepOutcome train_step(Training& training, int64_t steps_done, StepFacts own, StepClock& clock);

}  // namespace trainer
