// Collectives of sharded units, and updates of their shards, in time. Pure.
#pragma once

#include <vector>

#include "plan/unit_collectives.h"

namespace fsdp::plan {

// Seconds of a reduction of a unit with so many parameters, with the engine's own copies of its gradients.
double reduction_seconds(const std::vector<UnitCollective>& reduction, double parameters, const ShardedEngine& engine,
                         const Hardware& hardware);

// A rank's part of the state.
struct UpdateSizes {
  double parameters = 0;  // of the rank's shards
  double tensors = 0;     // entries of the optimizer's loop
  bool clips = false;
  Ring all = {};  // the ranks whose norms are added
};

// Seconds of the optimizer, and of clipping before it.
double update_seconds(const UpdateSizes& sizes, const ShardedEngine& engine, const Hardware& hardware);

}  // namespace fsdp::plan
