// The plan of a model of which the parameters alone are known: its state and its traffic, without activations and time.
#pragma once

#include "planning/plan_numbers.h"

namespace trainer {

// For a target with a list. Units are used in their order, and `root` at both ends, as in a language model.
PlanNumbers listed_numbers(const PlanTarget& target, const RunOptions& options);

}  // namespace trainer
