// Bytes that a rank receives from the other ranks of its tensor axis. Pure.
#pragma once

#include "planning/planned_mesh.h"

namespace trainer {

// For a micro-batch, in the passes of a stage.
double tensor_bytes(const RunOptions& options, const PlannedMesh& mesh, int stage);

}  // namespace trainer
