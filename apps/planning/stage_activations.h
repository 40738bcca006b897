// The tensors of a rank's micro-batches in a pipeline: activations, messages, and others. Pure.
#pragma once

#include <vector>

#include "plan/held_activations.h"
#include "planning/planned_mesh.h"
#include "planning/run_plan.h"

namespace trainer {

// Bytes of the tensor between two blocks, for a micro-batch: whole, or a slice of the sequence.
double message_bytes(const RunOptions& options);

// The tensors of a micro-batch, by stage.
struct StageTensors {
  std::vector<fsdp::plan::StageBytes> bytes;
  std::vector<double> others;  // bytes beside the activations, an estimate
};
StageTensors stage_tensors(const RunPlan& plan, const fsdp::plan::Mesh& mesh);

// The most of a pipeline rank, in bytes.
struct RankTensors {
  double activations = 0;  // as MemoryReport counts them; with ZeroBubble also what later products need
  double messages = 0;     // outputs that graphs hold, and gradients that arrive and leave
  double others = 0;       // an estimate
};
RankTensors tensors_of_rank(const RunPlan& plan, const fsdp::plan::Mesh& mesh, int pipeline_rank);
// For callers with several ranks.
RankTensors tensors_of_rank(const RunPlan& plan, const fsdp::plan::Mesh& mesh, const StageTensors& stages,
                            int pipeline_rank);

}  // namespace trainer
