// The activations of a planned run, from forwards of tiny models.
#pragma once

#include "options/options.h"
#include "planning/planned_activations.h"

namespace trainer {

// Of the run, and of those with bf16 parameters and with one sequence per micro-batch, which a plan may advise. Takes
// milliseconds; leaves LibTorch's default generator as it was. `options` are resolved.
PlannedActivations measured_activations(const Options& options);

}  // namespace trainer
