// From the options of `shard` to a rank that can be simulated: the facts and limits that the engine would have.
#pragma once

#include "plan/simulation.h"
#include "schedule/strategies.h"

namespace fsdp::plan {

// The way in which gathers reach the other ranks, as far as the order of a step depends on it (collectives/group.h).
enum class GatherWay {
  SharedMemory,  // shm, and a rank alone: a gather needs nothing of the peers but that they have published
  Messages,      // gloo: ranks can join each other's gathers, in any order
  Streams,       // NCCL: they can, in one order
};

struct ShardedSetup {
  size_t strategy = 0;  // the number in schedule::kStrategies, as in fsdp::Strategy
  int units = 1;
  int ranks = 1;
  int shards = 1;  // ranks that hold the model once
  int buffers = 2;
  int prefetch = 1;
  GatherWay way = GatherWay::Streams;
};

// Rank 0, without durations and events. Throws Error for numbers that `shard` would refuse.
RankToSimulate rank_of(const ShardedSetup& setup);

// The totals of the steady step of a rank that stands for all. Its events are made from the step. If there are many
// micro-batches, some are simulated, and each of the others adds as much as the last of these.
StepTotals steady_totals(RankToSimulate rank, const TrainingStep& step);

}  // namespace fsdp::plan
