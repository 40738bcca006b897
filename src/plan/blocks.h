// The blocks of a pipeline, and the units that a rank makes of its own. Pure.
#pragma once

#include <fsdp/plan.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/mesh.h"
#include "plan/tensor_traffic.h"

namespace fsdp::plan {

// An embedding, a layer, the last norm, or the head.
struct Block {
  Unit parameters = {};          // the parts of one tensor rank; none: they are those of another block on the same rank
  bool is_layer = false;         // all blocks of a rank that are no layers are one unit
  int64_t layer_unit = -1;       // of a layer: layers of one number that follow each other on a rank are one unit
  bool is_lookup = false;        // the backward reads no parameters
  PassExchanges exchanges = {};  // between tensor ranks
};

// Units in the order in which a stage uses them.
struct StageUses {
  std::vector<size_t> forward, backward;
};

struct RankUnits {
  std::vector<Unit> units = {};          // as `fsdp::shard` has them: first what lies in no layer, then the layers
  std::vector<StageUses> of_stage = {};  // by stage of the mesh; empty for those of other ranks
  // The number of each block's unit. None: the block lies on another rank, or has no parameters of its own.
  std::vector<std::optional<size_t>> of_block = {};
};

// If one unit would hold all layers of the rank, and there are several, it holds all parameters. Throws Error for
// another number of blocks than the mesh has, or a rank outside of its pipeline.
RankUnits units_of_rank(const Mesh& mesh, const std::vector<Block>& blocks, int64_t pipeline_rank);

// One rank, with one stage and one micro-batch. Throws Error for no blocks, or more than stages::kMostNumber.
Mesh mesh_of_one_rank(const std::vector<Block>& blocks);

}  // namespace fsdp::plan
