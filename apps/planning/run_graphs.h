// The operators of a run's model on one of its ranks. Pure.
#pragma once

#include <vector>

#include "fsdp/activation_memory.h"
#include "models/operators.h"
#include "options/options.h"

namespace trainer {

models::MicroBatchSizes micro_batch_sizes(const RunOptions& options, bool on_gpus);

// In training, with adapters and frozen parameters. On a tensor axis those of the first rank, whose part of the
// vocabulary is the largest.
fsdp::plan::ModelGraphs run_graphs(const RunOptions& options, bool on_gpus);

// The results that each layer keeps: what --activation-checkpoint says, or, with --activation-memory, all inputs alone.
std::vector<fsdp::KeptResults> kept_by_layers(const RunOptions& options);

}  // namespace trainer
