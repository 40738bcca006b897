// A step of this library on a mesh of GPUs, in time: the engine's own step driver plays the blocks of a transformer in
// the pipeline's schedule. Pure.
//
// One rank of each stage is simulated: the data and tensor ranks of a stage are alike. Exchanges between tensor ranks
// lie inside the blocks, and nothing runs beside them. Messages between stages take no time of the ranks.
#pragma once

#include <cstddef>

#include "plan/block_times.h"
#include "plan/mesh_traffic.h"
#include "plan/sharded_step.h"

namespace fsdp::plan {

struct MeshStep {
  MeshRun run;  // its blocks are those of the first tensor rank
  DividedModel model = {};
  size_t strategy = 0;  // its number in fsdp::Strategy
  int prefetch = 1;     // fsdp::Options
  bool clips = false;
};

struct MeshSeconds {
  StepSeconds step;       // `compute` is the mean of the stages' ranks
  double idle_share = 0;  // of the passes, from the first to the last: the mean of the stages' ranks
};

// The step that all later ones repeat. `engine` has the costs of the host and of the optimizer. With many
// micro-batches, some are simulated, and more take as much longer as the last of these. Throws Error as
// simulate_pipeline does.
MeshSeconds mesh_seconds(const MeshStep& step, const MeshPlaces& places, const ShardedEngine& engine,
                         const Hardware& hardware);

}  // namespace fsdp::plan
