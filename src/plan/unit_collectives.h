// The collectives of a unit's parameters and gradients, as engines that divide the data have them. Pure.
#pragma once

#include <vector>

#include "plan/collective_time.h"
#include "plan/engine_profile.h"
#include "plan/hardware.h"
#include "plan/sharded_run.h"

namespace fsdp::plan {

struct UnitCollective {
  Collective kind = Collective::AllGather;
  double bytes = 0;  // of the whole tensor
  Ring ring = {};
  double count = 1;  // so many, one after the other

  double seconds(const Hardware& hardware) const { return count * collective_seconds(kind, bytes, ring, hardware); }
  // Seconds that it would take for no bytes.
  double latency(const Hardware& hardware) const { return count * collective_seconds(kind, 0, ring, hardware); }
};

// The ranks that share units: `group` holds the model once, and `replicas` have the same shard.
struct UnitRings {
  Ring group = {};
  Ring replicas = {};
};

// The gather that makes `parameters` of a unit full, in elements of so many bytes.
UnitCollective unit_gather(double parameters, int64_t element, const UnitRings& rings);
// Sums the gradients of a unit within a group, and then between the replicas.
std::vector<UnitCollective> unit_reduction(double parameters, int64_t element, const UnitRings& rings);

// Those of a run: a gather of a unit with so many parameters, and the reduction of its gradients for one micro-batch.
// Replicas have a reduce-scatter within each of them, then an all-reduce between them.
UnitCollective unit_gather(const ShardedRun& run, double parameters, const Hardware& hardware);
std::vector<UnitCollective> unit_reduction(const ShardedRun& run, double parameters, const ShardedEngine& engine,
                                           const Hardware& hardware);

}  // namespace fsdp::plan
