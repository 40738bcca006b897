// fsdp-train sample: text from a checkpoint.
#pragma once

#include "options.h"

namespace trainer {

// Starts the ranks, as many as saved the checkpoint, loads it, prints a sample, and returns the exit code as `train`
// does. Call it before anything uses LibTorch: it forks.
int sample_command(const Options& options);

}  // namespace trainer
