// The passes of a pipeline's blocks in time, on one tensor rank. Pure.
#pragma once

#include <vector>

#include "plan/blocks.h"
#include "plan/engine_profile.h"
#include "plan/mesh_rings.h"
#include "plan/transformer.h"
#include "plan/work.h"

namespace fsdp::plan {

struct BlockTimes {
  WorkTime forward = {};
  WorkTime backward = {};         // with a second forward, if there is one
  WorkTime weight_gradient = {};  // the part of the backward that ZeroBubble puts off

  WorkTime input_gradient() const;
};

// A model, as one tensor rank computes it.
struct DividedModel {
  TransformerShape shape = {};  // of the rank: its heads, its part of the MLPs and of the vocabulary
  PassShape pass = {};
  std::vector<bool> again = {};  // by block: the backward runs the forward a second time
  bool is_selective = false;     // all layers run again but for every second product
};

// By block. `tensors` without bytes: exchanges take no time. Embeddings take their time in the first lookup, the last
// norm and the head in the head.
std::vector<BlockTimes> block_times(const std::vector<Block>& blocks, const DividedModel& model,
                                    const DividedTensors& tensors, const Ring& ring, const ShardedEngine& engine,
                                    const Hardware& hardware);

}  // namespace fsdp::plan
