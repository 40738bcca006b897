// The tensors of a rank's micro-batches in a pipeline: activations, messages, and others. Pure but for the tiny runs.
#pragma once

#include <vector>

#include "planning/held_activations.h"
#include "planning/planned_mesh.h"
#include "planning/run_plan.h"

namespace trainer {

// Bytes of the tensor between two blocks, for a micro-batch: whole, or a slice of the sequence.
double message_bytes(const RunOptions& options);

// By stage.
std::vector<StageBytes> stage_bytes(const RunPlan& plan, const PlannedMesh& mesh);

// The most of a pipeline rank, in bytes.
struct RankTensors {
  double activations = 0;  // as MemoryReport counts them; with ZeroBubble also what later products need
  double messages = 0;     // outputs that graphs hold, and gradients that arrive and leave
  double others = 0;       // an estimate
};
RankTensors tensors_of_rank(const RunPlan& plan, const PlannedMesh& mesh, int pipeline_rank);

}  // namespace trainer
