// fsdp-train sample: text from a checkpoint.
#pragma once

#include "options/options.h"

namespace trainer {

// Starts as many ranks as the checkpoint has shards, loads it, prints a sample, and returns the exit code as `train`
// does. The tokenizer is the run's. Call it before anything uses LibTorch: it forks.
int sample_command(const Options& options);

}  // namespace trainer
