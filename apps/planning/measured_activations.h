// The activations of planned runs, from steps of tiny models.
#pragma once

#include <torch/types.h>

#include "planning/planned_activations.h"
#include "planning/planned_offload.h"
#include "planning/planned_tensors.h"

namespace trainer {

// A tiny model is made and run, in milliseconds, when the first run of its kind is asked about. LibTorch's default
// generator is left as it was. Options that are asked about are resolved. `device` is the run's: on a GPU the loss
// keeps more logits.
PlannedActivations measured_activations(const torch::Device& device = torch::kCPU);
PlannedOffload measured_offload(const torch::Device& device = torch::kCPU);
PlannedTensors measured_tensors();

// The loss's own count (fsdp::kept_logit_bytes).
KeptLogitBytes kept_logits_on(const torch::Device& device);

}  // namespace trainer
