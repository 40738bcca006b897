// Times the passes of a run on this rank's GPU, by passes of one and of two of its layers.
#pragma once

#include <torch/types.h>

#include <optional>

#include "planning/run_plan.h"

namespace trainer {

// Takes a second or so, and the memory of a model with two layers. LibTorch's default generator is left as it was.
// Returns none if the device has no room for that. `options` are resolved.
std::optional<PassTimes> measured_passes(const torch::Device& device, const RunOptions& options);

}  // namespace trainer
