// The operators of a transformer on a CPU, in time, as LibTorch runs them eagerly. Pure.
//
// A CPU has no launches beside its work: the rank computes one operator after the other, and each has a fixed cost.
#pragma once

#include "plan/cpu_share.h"
#include "plan/sharded_run.h"

namespace fsdp::plan {

// The step of a run of this library on CPUs, in the measured rates of a rank's share of its host. `run.pass.element` is
// the share's. Gathers take no time: ranks of a host map each other's shards (src/collectives/shm).
ShardedStep cpu_step(const ShardedRun& run, const CpuShare& share, const Hardware& hardware);

}  // namespace fsdp::plan
