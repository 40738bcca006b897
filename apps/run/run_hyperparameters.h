// A run's row in TensorBoard's table of hyperparameters.
#pragma once

#include "metrics/hyperparameters.h"
#include "options/options.h"

namespace trainer {

// The options that say how a run is trained, as far as they are set, by their keys in files: "lr", "shard_group_size".
Hyperparameters hyperparameters_of(const RunOptions& options);

}  // namespace trainer
