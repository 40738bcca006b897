// Everything that a rank trains with.
#pragma once

#include <fsdp/fsdp.h>

#include <functional>
#include <optional>

#include "data/corpus.h"
#include "data/data_order.h"
#include "options/options.h"
#include "report/profile.h"
#include "run/run_settings.h"
#include "training/job_memory.h"
#include "training/run_mesh.h"
#include "training/run_optimizer.h"
#include "training/run_phase.h"
#include "training/tensor_memory.h"
#include "training/trained_model.h"

namespace trainer {

// References to what train_rank owns, for the functions that a step is made of.
struct Training {
  fsdp::World& world;  // all ranks: the mesh's
  RunMesh& mesh;
  const RunOptions& options;
  const data::Corpus& corpus;
  const RunSettings& settings;  // rank 0's
  const data::DataOrder& order;
  TrainedModel& model;
  fsdp::ShardedModel& sharded;
  RunOptimizer& optimizer;
  fsdp::GradScaler& scaler;  // does nothing where the parameters are not fp16
  TensorMemory& tensor_memory;
  JobMemory& job;
  RunPhase& phase;
  int64_t program_bytes;                   // that were resident before the model was made
  const std::optional<ProfilePlan>& plan;  // with --profile, on rank 0
  // Prints the settings, on rank 0, the first time. Before that, an error is the only text on the screen.
  std::function<void()> show_settings;
};

}  // namespace trainer
