// A step on a mesh of GPUs, as the simulation takes it (src/plan/mesh_step.h). Pure.
#pragma once

#include "options/options.h"
#include "plan/mesh_step.h"

namespace trainer {

// `mesh` is that of the options, and outlives the result.
fsdp::plan::MeshStep mesh_step_of(const RunOptions& options, const fsdp::plan::Mesh& mesh,
                                  const fsdp::plan::MeshPlaces& places);

// The number of the options' strategy in fsdp::Strategy.
size_t strategy_number(const RunOptions& options);

}  // namespace trainer
