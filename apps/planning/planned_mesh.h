// A run on a mesh of data x pipeline x tensor ranks, as its options have it (src/plan/mesh.h). Pure.
#pragma once

#include "options/options.h"
#include "plan/mesh.h"

namespace trainer {

// The blocks of each stage. Throws fsdp::Error for stages that the model's blocks cannot have.
std::vector<int> planned_cuts(const RunOptions& options);

// Throws fsdp::Error for stages that the model's blocks or the schedule cannot have.
fsdp::plan::Mesh planned_mesh(const RunOptions& options);

// By the operations of the blocks.
fsdp::plan::IdleShares idle_shares(const fsdp::plan::Mesh& mesh, const RunOptions& options);

}  // namespace trainer
