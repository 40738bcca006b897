// Where a model's long-lived tensors lie, by the options.
#pragma once

#include <memory>

#include "fsdp/options.h"
#include "fsdp/world.h"
#include "memory/backing.h"

namespace fsdp {

struct Backings {
  std::shared_ptr<memory::Backing> shards, states;
};

// Throws Error for options that contradict each other.
void check_offload(const Options& options);

// Opens the folder, if there is one. Throws Error where it cannot be used.
Backings backings_of(const Options& options, World& world);

}  // namespace fsdp
