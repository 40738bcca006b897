#include "planning/mesh_traffic.h"

#include "models/block_costs.h"
#include "options/frozen.h"
#include "planning/element_bytes.h"
#include "planning/planned_sharding.h"
#include "planning/stage_activations.h"
#include "planning/stage_blocks.h"

namespace trainer {

namespace plan = fsdp::plan;

namespace {

plan::DividedTensors divided_tensors(const RunOptions& options) {
  const double tokens = static_cast<double>(options.batch) * static_cast<double>(options.model.context);
  return {.ranks = options.tensor_parallel,
          .parts = options.parts() / options.tensor_parallel,
          .bytes = static_cast<double>(element_bytes(options.param_dtype)) * tokens *
                   static_cast<double>(options.model.width)};
}

plan::TiedCopy tied_copy(const RunOptions& options, int64_t tensor_rank) {
  const models::ModelBlock head = models::blocks(options.model).back();
  if (head.tied_to.empty() || frozen_parameters(options).contains(head.tied_to)) return {};
  return {.numel = models::part_of(head.parameters[0], tensor_rank_of(options, tensor_rank)).numel(),
          .element_bytes = element_bytes(options.param_dtype)};
}

}  // namespace

// If the ranks lie unevenly: as if each had a host of its own.
plan::Sharding stage_sharding(const RunOptions& options, bool on_gpus, const plan::MeshPlaces& places,
                              int64_t pipeline_rank, int64_t tensor_rank) {
  const plan::DataRanks ranks(
      places.hosts_along(&plan::MeshCoordinates::data, {.pipeline = pipeline_rank, .tensor = tensor_rank}));
  return planned_sharding(options, ranks.are_even() ? ranks.hosts() : ranks.size(), on_gpus);
}

plan::MeshRun mesh_run_of(const RunOptions& options, bool on_gpus, const plan::Mesh& mesh,
                          const plan::MeshPlaces& places, const plan::MeshCoordinates& at) {
  return {.mesh = mesh,
          .blocks = stage_blocks(options, at.tensor),
          .sharding = stage_sharding(options, on_gpus, places, at.pipeline, at.tensor),
          .message_bytes = message_bytes(options),
          .tensors = divided_tensors(options),
          .tied = tied_copy(options, at.tensor)};
}

plan::RankTraffic traffic_of_rank(const RunOptions& options, bool on_gpus, const plan::Mesh& mesh,
                                  const plan::MeshPlaces& places, const plan::MeshCoordinates& at) {
  const plan::MeshRun run = mesh_run_of(options, on_gpus, mesh, places, at);
  return plan::StageTraffic(run, places, at.pipeline, at.tensor).of(at.data);
}

}  // namespace trainer
