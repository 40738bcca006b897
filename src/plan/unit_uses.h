// How often the units of a pipeline's rank are gathered and reduced in a step. Pure.
#pragma once

#include <fsdp/plan.h>

#include <vector>

#include "plan/blocks.h"

namespace fsdp::plan {

// By unit. `sharding` is along the data axis of the mesh.
std::vector<UnitUses> unit_uses(const Mesh& mesh, const RankUnits& units, const Sharding& sharding,
                                int64_t pipeline_rank);

// By unit, of a model on one pipeline rank whose blocks are used in their order.
std::vector<UnitUses> unit_uses(const std::vector<Block>& blocks, const Sharding& sharding, int64_t micro_batches);

}  // namespace fsdp::plan
