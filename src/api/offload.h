// Where a model's tensors lie, by the options.
#pragma once

#include <memory>

#include "collectives/group.h"
#include "fsdp/options.h"
#include "fsdp/world.h"
#include "memory/backing.h"
#include "memory/byte_store.h"

namespace fsdp {

struct Backings {
  std::shared_ptr<memory::Backing> shards, sums, states;
  Offload in_files = Offload::Nothing;                  // of these
  std::shared_ptr<memory::ByteStore> activations = {};  // none: they stay in memory
};

// Throws Error for options that contradict each other.
void check_offload(const Options& options);

// Opens the folder, if there is one. Throws Error where it cannot be used.
Backings backings_of(const Options& options, World& world);

// Returns the group of ranks on GPUs whose shards lie in the host's memory. It exchanges over NCCL if possible. Shards
// in files, and shards that the launcher holds, are gathered on the host. A collective.
std::unique_ptr<collectives::Group> make_offloaded_group(World& world, const Backings& backings);
// True if it takes the place of the world's own.
bool is_offloaded_to_cpu(const Options& options, const World& world);

}  // namespace fsdp
