// A step of this library, in time: the engine's own step driver plays the units of a transformer. Pure.
#pragma once

#include <cstddef>

#include "plan/sharded_run.h"

namespace fsdp::plan {

struct LibfsdpRun {
  ShardedRun run = {};
  size_t strategy = 0;            // its number in fsdp::Strategy
  int buffers = 2, prefetch = 1;  // fsdp::Options
};

// The step that all later ones repeat. `engine` has the costs of the host and of the optimizer on GPUs. CPUs are those
// of one host, in shared memory. Throws Error for a run that the engine would refuse, and for CPUs whose rates for the
// run's elements are not known.
StepSeconds libfsdp_step(const LibfsdpRun& run, const ShardedEngine& engine, const Hardware& hardware);

}  // namespace fsdp::plan
