#include "planning/mesh_traffic.h"

#include "models/block_costs.h"
#include "options/frozen.h"
#include "planning/data_traffic.h"
#include "planning/stage_activations.h"
#include "planning/stage_units.h"
#include "planning/tensor_traffic.h"

namespace trainer {

namespace {

// A rank, and the ranks with which it exchanges messages.
struct Neighbours {
  const PlannedMesh& mesh;
  const MeshPlaces& places;
  MeshCoordinates at;

  std::vector<int> stages() const { return mesh.stages_of(static_cast<int>(at.pipeline)); }
  bool has(int stage) const { return mesh.schedule.rank_of(stage) == at.pipeline; }
  bool is_here(int stage) const {
    return places.host_of({at.data, mesh.schedule.rank_of(stage), at.tensor}) == places.host_of(at);
  }
};

Traffic between_stages(const RunOptions& options, const Neighbours& own) {
  const double bytes = static_cast<double>(options.micro_batches) * message_bytes(options);
  Traffic traffic;
  for (const int stage : own.stages()) {
    for (const int peer : {stage - 1, stage + 1}) {
      if (peer >= 0 && peer < own.mesh.stages() && !own.has(peer)) traffic.add(bytes, own.is_here(peer));
    }
  }
  return traffic;
}

Traffic between_parts(const RunOptions& options, const Neighbours& own) {
  double bytes = 0;
  for (const int stage : own.stages())
    bytes += static_cast<double>(options.micro_batches) * tensor_bytes(options, own.mesh, stage);
  const std::vector<int64_t> hosts = own.places.hosts_along(&MeshCoordinates::tensor, own.at);
  Traffic traffic;
  for (int64_t peer = 0; peer < own.mesh.tensor; ++peer) {
    if (peer == own.at.tensor) continue;
    const bool is_here = hosts[static_cast<size_t>(peer)] == own.places.host_of(own.at);
    traffic.add(bytes / static_cast<double>(own.mesh.tensor - 1), is_here);
  }
  return traffic;
}

// The head's gradient for each micro-batch, to the embedding, and the whole gradient back at the end.
Traffic between_copies(const RunOptions& options, const Neighbours& own) {
  const models::ModelBlock head = models::blocks(options.model).back();
  const int last = own.mesh.stages() - 1;
  const bool is_trained = !frozen_parameters(options).contains(head.tied_to);
  if (head.tied_to.empty() || own.mesh.pipeline == 1 || !is_trained) return {};
  const models::Parameter part = models::part_of(head.parameters[0], tensor_rank_of(options, own.at.tensor));
  const auto numel = static_cast<double>(part.numel());
  const double element = options.param_dtype == "fp32" ? 4 : 2, whole_element = 4;
  Traffic traffic;
  if (own.has(0)) traffic.add(static_cast<double>(options.micro_batches) * numel * element, own.is_here(last));
  if (own.has(last)) traffic.add(numel * whole_element, own.is_here(0));
  return traffic;
}

}  // namespace

Traffic RankTraffic::sum() const {
  Traffic sum;
  for (const Traffic& part : {pipeline, tensor, gathers, reductions, tied}) {
    sum.within += part.within;
    sum.across += part.across;
  }
  return sum;
}

RankTraffic traffic_of_rank(const RunOptions& options, bool on_gpus, const PlannedMesh& mesh, const MeshPlaces& places,
                            const MeshCoordinates& at) {
  const Neighbours own{mesh, places, at};
  RankTraffic traffic;
  traffic.pipeline = between_stages(options, own);
  traffic.tensor = between_parts(options, own);
  traffic.tied = between_copies(options, own);
  add_data_traffic(options, on_gpus, mesh, places.hosts_along(&MeshCoordinates::data, at), at, traffic);
  return traffic;
}

}  // namespace trainer
