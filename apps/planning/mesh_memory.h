// Memory that the ranks of a mesh take. Pure.
#pragma once

#include <vector>

#include "plan/blocks.h"
#include "plan/mesh_places.h"
#include "planning/planned_sharding.h"
#include "planning/stage_activations.h"

namespace trainer {

// Bytes of a pipeline rank. The first tensor rank, whose part of the vocabulary is the largest, stands for all.
struct StageMemory {
  std::vector<fsdp::plan::StateMemory> model;  // by the data ranks of a host
  RankTensors tensors;

  // The bytes of one data rank, without the program.
  double of_rank(const fsdp::plan::StateMemory& plan) const;
  // The plan of the data rank that takes most.
  const fsdp::plan::StateMemory& largest() const;
};

struct MeshMemory {
  std::vector<StageMemory> of_stage;  // by pipeline rank
  double process = 0;                 // per rank
  double program = 0;                 // of a host's ranks, once
  double of_host = 0;                 // all of the host that needs most
  double in_files = 0;                // of the host that has most of it, which is in no other number

  double largest_rank() const;
};

// For a run with a mesh.
MeshMemory mesh_memory(const RunPlan& plan);

// The memory of the ranks of one stage and one tensor rank, which divide it along the data axis.
std::vector<fsdp::plan::StateMemory> plan_stage(const RunPlan& plan, const fsdp::plan::Mesh& mesh,
                                                const fsdp::plan::MeshPlaces& places, int pipeline_rank,
                                                int64_t tensor_rank = 0);
// `blocks` are stage_blocks, for callers with several stages.
std::vector<fsdp::plan::StateMemory> plan_stage(const RunPlan& plan, const fsdp::plan::Mesh& mesh,
                                                const fsdp::plan::MeshPlaces& places,
                                                const std::vector<fsdp::plan::Block>& blocks, int pipeline_rank,
                                                int64_t tensor_rank);

}  // namespace trainer
