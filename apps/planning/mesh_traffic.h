// Bytes that a rank of a run on a mesh receives in a step (src/plan/mesh_traffic.h). Pure.
#pragma once

#include "options/options.h"
#include "plan/mesh_traffic.h"

namespace trainer {

// The division along the data axis, of the ranks of one stage and one tensor rank.
fsdp::plan::Sharding stage_sharding(const RunOptions& options, bool on_gpus, const fsdp::plan::MeshPlaces& places,
                                    int64_t pipeline_rank, int64_t tensor_rank);

// The run, as it concerns the ranks of one stage and one tensor rank. The mesh outlives it.
fsdp::plan::MeshRun mesh_run_of(const RunOptions& options, bool on_gpus, const fsdp::plan::Mesh& mesh,
                                const fsdp::plan::MeshPlaces& places, const fsdp::plan::MeshCoordinates& at);

// The traffic of the rank at these coordinates.
fsdp::plan::RankTraffic traffic_of_rank(const RunOptions& options, bool on_gpus, const fsdp::plan::Mesh& mesh,
                                        const fsdp::plan::MeshPlaces& places, const fsdp::plan::MeshCoordinates& at);

}  // namespace trainer
