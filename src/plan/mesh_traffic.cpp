#include "plan/mesh_traffic.h"

#include <algorithm>

#include "base/error.h"
#include "plan/unit_uses.h"

namespace fsdp::plan {

namespace {

void add(Traffic& traffic, double bytes, bool is_within) { (is_within ? traffic.within : traffic.across) += bytes; }

void check(const MeshRun& run, const MeshPlaces& places, const MeshCoordinates& at) {
  const MeshSizes& sizes = run.mesh.sizes;
  FSDP_CHECK(run.sharding.ranks == sizes.data, "plan: found a sharding over {} ranks, expected {}, the data axis.",
             run.sharding.ranks, sizes.data);
  FSDP_CHECK(ranks_of(places.sizes()) == ranks_of(sizes), "plan: found the hosts of {} ranks, expected those of {}.",
             ranks_of(places.sizes()), ranks_of(sizes));
  FSDP_CHECK(run.tensors.ranks == sizes.tensor, "plan: found tensors of {} ranks, expected {}, the tensor axis.",
             run.tensors.ranks, sizes.tensor);
  FSDP_CHECK(at.pipeline >= 0 && at.pipeline < sizes.pipeline && at.tensor >= 0 && at.tensor < sizes.tensor,
             "plan: found pipeline rank {} and tensor rank {}, expected less than {} and {}.", at.pipeline, at.tensor,
             sizes.pipeline, sizes.tensor);
  FSDP_CHECK(run.message_bytes >= 0 && run.tied.numel >= 0 && run.tied.element_bytes >= 0,
             "plan: found messages of {} bytes and a copy of {} elements of {} bytes, expected 0 or more.",
             run.message_bytes, run.tied.numel, run.tied.element_bytes);
}

MeshRun checked(MeshRun run, const MeshPlaces& places, const MeshCoordinates& at) {
  check(run, places, at);
  return run;
}

DataTraffic data_traffic_of(const MeshRun& run, int64_t pipeline_rank) {
  const RankUnits units = units_of_rank(run.mesh, run.blocks, pipeline_rank);
  return {units.units, unit_uses(run.mesh, units, run.sharding, pipeline_rank), run.sharding};
}

}  // namespace

Traffic RankTraffic::sum() const {
  Traffic sum;
  for (const Traffic& part : {pipeline, tensor, tied, data.gathers, data.reductions}) {
    sum.within += part.within;
    sum.across += part.across;
  }
  return sum;
}

StageTraffic::StageTraffic(const MeshRun& run, const MeshPlaces& places, int64_t pipeline_rank, int64_t tensor_rank)
    : run_(checked(run, places, {.pipeline = pipeline_rank, .tensor = tensor_rank})),
      places_(places),
      own_{.pipeline = pipeline_rank, .tensor = tensor_rank},
      stages_(run.mesh.stages_of(pipeline_rank)),
      micro_batches_(run.mesh.schedule.micro_batches),
      ranks_(places.hosts_along(&MeshCoordinates::data, own_)),
      data_(data_traffic_of(run, pipeline_rank)) {
  Exchanges exchanges;
  for (const int stage : stages_) {
    for (int i = run.mesh.first_block(stage), end = run.mesh.end_block(stage); i < end; ++i)
      exchanges += run.blocks[static_cast<size_t>(i)].exchanges.sum();
  }
  tensor_bytes_ = micro_batches_ * exchanged_bytes(exchanges, run.tensors);
}

bool StageTraffic::is_here(int stage, const MeshCoordinates& at) const {
  return places_.host_of({at.data, run_.mesh.schedule.rank_of(stage), at.tensor}) == places_.host_of(at);
}

Traffic StageTraffic::between_stages(const MeshCoordinates& at) const {
  Traffic traffic;
  for (const int stage : stages_) {
    for (const int peer : {stage - 1, stage + 1}) {
      if (peer >= 0 && peer < run_.mesh.stages() && !has(peer))
        add(traffic, micro_batches_ * run_.message_bytes, is_here(peer, at));
    }
  }
  return traffic;
}

Traffic StageTraffic::between_parts(const MeshCoordinates& at) const {
  const int64_t ranks = run_.mesh.sizes.tensor;
  Traffic traffic;
  if (ranks == 1) return traffic;
  const std::vector<int64_t> hosts = places_.hosts_along(&MeshCoordinates::tensor, at);
  const int64_t here = std::ranges::count(hosts, places_.host_of(at)) - 1;
  const double of_a_peer = tensor_bytes_ / static_cast<double>(ranks - 1);
  return {.within = of_a_peer * static_cast<double>(here), .across = of_a_peer * static_cast<double>(ranks - 1 - here)};
}

// The head's gradient for each micro-batch, to the embedding, and the whole gradient back at the end.
Traffic StageTraffic::between_copies(const MeshCoordinates& at) const {
  constexpr double kWholeElement = 4;
  const int last = run_.mesh.stages() - 1;
  Traffic traffic;
  if (run_.mesh.sizes.pipeline == 1) return traffic;
  const auto numel = static_cast<double>(run_.tied.numel), element = static_cast<double>(run_.tied.element_bytes);
  if (has(0)) add(traffic, micro_batches_ * numel * element, is_here(last, at));
  if (has(last)) add(traffic, numel * kWholeElement, is_here(0, at));
  return traffic;
}

RankTraffic StageTraffic::of(int64_t data_rank) const {
  const MeshCoordinates at{.data = data_rank, .pipeline = own_.pipeline, .tensor = own_.tensor};
  FSDP_CHECK(data_rank >= 0 && data_rank < ranks_.size(), "plan: found data rank {}, expected less than {}.", data_rank,
             ranks_.size());
  return {.pipeline = between_stages(at),
          .tensor = between_parts(at),
          .tied = between_copies(at),
          .data = data_.of(ranks_, data_rank)};
}

}  // namespace fsdp::plan
