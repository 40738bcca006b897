// Refuses a run that cannot fit, before it takes memory. Otherwise the kernel would kill a rank during a step.
#pragma once

#include <fsdp/world.h>

#include "options/options.h"
#include "training/this_host.h"

namespace trainer {

// Prints, on rank 0, the plan's memory and what would let it fit, and throws AgreedError on every rank, where the ranks
// of this host would take more than there is. `options` are resolved; --ignore-memory lets everything pass. A
// collective.
void check_memory(fsdp::World& world, const Options& options, const FreeMemory& free);

// Throws AgreedError on every rank where --activation-memory is below the least that the layers can keep. A collective.
void check_activation_memory(fsdp::World& world, const Options& options);

}  // namespace trainer
