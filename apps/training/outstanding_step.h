// A step whose parameters have changed, and of which the rest is still to be done: its record, its validation, its
// checkpoint. As a note of the state that ranks leave in memory, so that those after them do that rest.
#pragma once

#include <string>

#include "training/train_step.h"

namespace trainer {

std::string to_note(const StepOutcome& outcome);
// From the other ranks' values, only those for rank 0.
StepOutcome outcome_from_note(const std::string& note);

}  // namespace trainer
