// Bytes that a rank receives from the data ranks of its stage: full parameters, and gradients. Pure.
#pragma once

#include "planning/mesh_traffic.h"

namespace trainer {

// Adds to `gathers`, `reductions` and their counts. `hosts`: of the data ranks.
void add_data_traffic(const RunOptions& options, bool on_gpus, const PlannedMesh& mesh,
                      const std::vector<int64_t>& hosts, const MeshCoordinates& at, RankTraffic& traffic);

}  // namespace trainer
