// The units of a rank of a mesh: of the blocks of its stages, its tensor rank's parts. Pure.
#pragma once

#include <vector>

#include "models/divided_parameters.h"
#include "planning/model_parts.h"
#include "planning/planned_mesh.h"

namespace trainer {

// The tensor rank of a run.
models::TensorRank tensor_rank_of(const RunOptions& options, int64_t rank);

// As `fsdp::shard` has them: first what lies in no layer, if the rank has such blocks, then the layers.
std::vector<PlannedUnit> units_of_rank(const PlannedMesh& mesh, const RunOptions& options, int pipeline_rank,
                                       int64_t tensor_rank);

}  // namespace trainer
