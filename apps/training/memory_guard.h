// Refuses a run that cannot fit, before it takes memory, and keeps one that barely fits to its plan. Otherwise the
// kernel would kill a rank during a step.
#pragma once

#include <fsdp/world.h>

#include "options/options.h"
#include "training/this_host.h"

namespace trainer {

// Prints, on rank 0, the plan's memory and what would let it fit, and throws AgreedError on every rank, where the ranks
// of this host would take more than there is; --ignore-memory lets everything pass. A run that barely fits, or is let
// pass, returns memory that it frees (fsdp::return_freed_memory). `options` are resolved. A collective.
void check_memory(fsdp::World& world, const RunOptions& options, const FreeMemory& free);

// Throws AgreedError on every rank where --activation-memory is below the least that the layers can keep. A collective.
void check_activation_memory(fsdp::World& world, const RunOptions& options);

}  // namespace trainer
