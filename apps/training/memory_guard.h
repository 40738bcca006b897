// Refuses a run that cannot fit, before it takes memory, and keeps one that barely fits to its plan. Otherwise the
// kernel would kill a rank during a step.
#pragma once

#include <fsdp/world.h>

#include "options/options.h"
#include "training/this_host.h"

namespace trainer {

// Prints, on rank 0, the plan's memory and what would let it fit, and throws AgreedError on every rank, where the ranks
// of this host would take more than there is; --ignore-memory lets everything pass. A run that barely fits, or is let
// pass, keeps its heap small (keep_heap_small). `options` are resolved. A collective.
void check_memory(fsdp::World& world, const RunOptions& options, const FreeMemory& free);

// From now on the heap of the C library returns each tensor of 2 MB or more to the kernel as soon as it is freed. By
// default it keeps most of them for later use, which saves the time of new pages, and takes up to 15 % more memory.
// With an offload_directory tensors have an allocator of the library's instead.
void keep_heap_small();

// Throws AgreedError on every rank where --activation-memory is below the least that the layers can keep. A collective.
void check_activation_memory(fsdp::World& world, const RunOptions& options);

}  // namespace trainer
