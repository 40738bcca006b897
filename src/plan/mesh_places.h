// The hosts of a mesh's ranks, by the rule of fsdp::Mesh (world/grid.h): ranks of the last axis are neighbours. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/mesh.h"
#include "world/grid.h"

namespace fsdp::plan {

// The place of a rank in a mesh.
struct MeshCoordinates {
  int64_t data = 0, pipeline = 0, tensor = 0;
};
using MeshAxis = int64_t MeshCoordinates::*;

class MeshPlaces {
 public:
  // Hosts of equally many ranks each, numbered one host's after another's. Throws Error for sizes as ranks_of does, and
  // for hosts that do not divide the ranks.
  MeshPlaces(const MeshSizes& sizes, int64_t hosts);

  // A rank's number in the job.
  int64_t rank_of(const MeshCoordinates& at) const;
  int64_t host_of(const MeshCoordinates& at) const { return rank_of(at) / ranks_of_host_; }
  int64_t hosts() const { return hosts_; }
  const MeshSizes& sizes() const { return sizes_; }
  // The hosts of the ranks along an axis, through a rank.
  std::vector<int64_t> hosts_along(MeshAxis axis, MeshCoordinates at) const;

  // Calls `use(coordinates)` for each rank, in the order of the grid.
  template <typename Use>
  void for_each(Use use) const {
    for (MeshCoordinates at; at.data < sizes_.data; ++at.data) {
      for (at.pipeline = 0; at.pipeline < sizes_.pipeline; ++at.pipeline) {
        for (at.tensor = 0; at.tensor < sizes_.tensor; ++at.tensor) use(at);
      }
    }
  }

 private:
  MeshSizes sizes_;
  int64_t hosts_, ranks_of_host_;
  std::optional<world::Grid> grid_;  // none: ranks are in the order of the grid
};

}  // namespace fsdp::plan
