// The hosts of a mesh's ranks, by the rule of fsdp::Mesh: ranks of the last axis are neighbours. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planning/planned_mesh.h"
#include "world/grid.h"

namespace trainer {

// A rank's coordinates, or the sizes of the axes.
struct MeshCoordinates {
  int64_t data = 0, pipeline = 0, tensor = 0;
};
using MeshAxis = int64_t MeshCoordinates::*;

class MeshPlaces {
 public:
  // Hosts of equally many ranks each, numbered one host's after another's.
  MeshPlaces(const PlannedMesh& mesh, int64_t hosts);

  // A rank's number in the job.
  int64_t rank_of(const MeshCoordinates& at) const;
  int64_t host_of(const MeshCoordinates& at) const { return rank_of(at) / ranks_of_host_; }
  int64_t hosts() const { return hosts_; }
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

  // "tensor ranks share a host; the ranks of a pipeline lie on 2 hosts: 0-1, 2-3; data ranks share a host".
  std::string text() const;

 private:
  std::string axis_text(const std::string& name, MeshAxis axis) const;
  std::string pipeline_borders() const;

  MeshCoordinates sizes_;
  int64_t hosts_, ranks_of_host_;
  fsdp::world::Grid grid_;
};

}  // namespace trainer
