// A sharded training run, to be compared with the oracle's.
#pragma once

#include <fsdp/fsdp.h>

#include "support/models.h"
#include "support/oracle.h"

namespace fsdp::testing_models {

// Every parameter of the module, whole. A collective.
Weights whole_weights(const torch::nn::Module& module, ShardedModel& sharded);

// The rule of docs/determinism.md: micro-batch b of a step goes to rank b mod N. The weights at the end, whole. A
// collective.
Weights train_sharded(const TestModel& model, World& world, const Training& training, const Options& options = {});

}  // namespace fsdp::testing_models
