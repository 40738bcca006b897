#include "plan/mesh_places.h"

#include <algorithm>

#include "plan/checks.h"

namespace fsdp::plan {

namespace {

int64_t size_along(const MeshSizes& sizes, MeshAxis axis) {
  const MeshCoordinates as_coordinates{sizes.data, sizes.pipeline, sizes.tensor};
  return as_coordinates.*axis;
}

// The grid moves ranks only if groups fit on a host, and leave some of its ranks over.
bool moves_ranks(const MeshSizes& sizes, int64_t ranks_of_host) {
  const int64_t pipelines = sizes.pipeline * sizes.tensor;
  return std::ranges::any_of(std::vector{sizes.tensor, pipelines, sizes.data * pipelines},
                             [&](int64_t group) { return group < ranks_of_host && ranks_of_host % group != 0; });
}

world::Grid grid_of(const MeshSizes& sizes, int64_t ranks_of_host) {
  std::vector<world::HostOfRank> hosts;
  for (int64_t rank = 0; rank < ranks_of(sizes); ++rank) hosts.push_back({.number = rank / ranks_of_host, .name = ""});
  return {{{"data", static_cast<int>(sizes.data)},
           {"pipeline", static_cast<int>(sizes.pipeline)},
           {"tensor", static_cast<int>(sizes.tensor)}},
          hosts};
}

}  // namespace

MeshPlaces::MeshPlaces(const MeshSizes& sizes, int64_t hosts) : sizes_(sizes), hosts_(hosts) {
  check_ranks(ranks_of(sizes), hosts);
  ranks_of_host_ = ranks_of(sizes) / hosts;
  if (moves_ranks(sizes, ranks_of_host_)) grid_ = grid_of(sizes, ranks_of_host_);
}

int64_t MeshPlaces::rank_of(const MeshCoordinates& at) const {
  const int64_t position = (at.data * sizes_.pipeline + at.pipeline) * sizes_.tensor + at.tensor;
  return grid_ ? grid_->ranks()[static_cast<size_t>(position)] : position;
}

std::vector<int64_t> MeshPlaces::hosts_along(MeshAxis axis, MeshCoordinates at) const {
  std::vector<int64_t> hosts;
  for (at.*axis = 0; at.*axis < size_along(sizes_, axis); ++(at.*axis)) hosts.push_back(host_of(at));
  return hosts;
}

}  // namespace fsdp::plan
