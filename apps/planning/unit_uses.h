// How often the units of a pipeline's rank are gathered and reduced in a step. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/planned_mesh.h"

namespace trainer {

// By unit, as units_of_rank has them.
struct UnitTimes {
  std::vector<int64_t> gathers, reductions;
};

// For ranks that shard their stages along the data axis.
UnitTimes unit_times(const PlannedMesh& mesh, const RunOptions& options, int pipeline_rank);

}  // namespace trainer
