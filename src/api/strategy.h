// The meaning of a strategy to the engine.
#pragma once

#include "fsdp/options.h"
#include "fsdp/world.h"
#include "schedule/residency.h"

namespace fsdp {

struct Sharding {
  int shards;  // ranks that hold the model once
  schedule::FullUntil full_until;
};

// Throws Error for a group size that the strategy or the world does not allow.
Sharding sharding_of(const Options& options, const World& world);

}  // namespace fsdp
