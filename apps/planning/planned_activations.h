// The activations of a planned run, from the model's operators: without LibTorch. Pure.
#pragma once

#include <fsdp/activation_memory.h>

#include "options/options.h"

namespace trainer {

// As fsdp::kLeastOffloadBytes.
constexpr int64_t kLeastOffloaded = 64 << 10;

// With --activation-memory: products and attention are assumed to take this share of a layer's time.
constexpr double kProductShare = 0.9;

// Bytes that a rank's micro-batch keeps from its forward to its backward, each when it is most. Without a mesh.
struct PlannedActivations {
  double in_memory = 0, in_files = 0;
};

// Exact on CPUs for both families. With --activation-memory those of `budgeted_activations`, or the least where that is
// more. `on_gpus`: the ranks compute on GPUs.
PlannedActivations planned_activations(const RunOptions& options, bool on_gpus);

// With --activation-memory: what the layers are likely to keep. Bytes are those of the run, times are assumed. Throws
// fsdp::Error where the least is more.
fsdp::ActivationPlan budgeted_activations(const RunOptions& options, bool on_gpus);

}  // namespace trainer
