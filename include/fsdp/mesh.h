// Ranks as a grid, such as 4 replicas of a model whose layers are divided among 8 ranks each.
//
//   fsdp::Mesh mesh(world, {{"data", 4}, {"tensor", 8}});   // 32 ranks
//   fsdp::World tensor = mesh["tensor"];                    // the 8 ranks of this rank's replica
//   tensor.all_reduce_(partial_sum);
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/movable.h"
#include "fsdp/world.h"

namespace fsdp {

namespace world {
struct MeshState;
}

// Places the ranks of a world in a grid. Each rank has a world for the ranks along each axis. A cheap handle: copies
// share one grid and its worlds.
//
// Ranks are laid row-major over the axes: the last axis changes fastest, and its ranks are neighbours. So put the axis
// with the most traffic last. The numbers that a launcher gave to the ranks do not matter, because hosts decide:
// - As many groups of the last axis as possible lie on one host each. If every host has the same number of ranks, and
//   the size of the last axis divides it, all of them do. Ranks that are left over on their hosts form the others.
// - These groups are joined along the axis before in the same way, and so on up to the first axis.
// - Groups come in the order of their first ranks. Hosts come in the order of their lowest ranks, and a host's ranks in
//   the order of their numbers. Rank 0 has coordinate 0 on every axis.
//
// Each world of a mesh is a group with its own connections, and the rules of World hold for it. Messages of its errors
// name ranks by their numbers in the job. Functions that are no collective may be called from any thread. An unknown
// name of an axis is an `Error` that lists the names.
class Mesh {
 public:
  // Names and sizes of the axes. Names are unique and not empty. Sizes are 1 or more, and their product is
  // `world.size()`. Axes of size 1 have worlds of one rank.
  //
  // A collective of `world`, which is not needed afterwards. All ranks pass the same axes. Throws `Error` on every
  // rank if they differ, and for axes that do not fit the world; `world` can then be used as before.
  Mesh(const World& world, std::vector<std::pair<std::string, int>> axes);

  // Names and sizes, in the order of the constructor.
  const std::vector<std::pair<std::string, int>>& axes() const;
  // 1 or more.
  int size(const std::string& axis) const;
  // This rank's: 0 <= coordinate(axis) < size(axis).
  int coordinate(const std::string& axis) const;

  // The ranks whose coordinates differ from this rank's along the axis alone. A rank's number there is its coordinate.
  // Each call returns the same world.
  World operator[](const std::string& axis) const;
  // The ranks that differ along several axes alone, for example for a sum over {"data", "tensor"}. Ranks are row-major
  // over these axes, in the order of the mesh. A collective of the whole mesh that makes a new world: call it once, and
  // keep the result. Throws `Error` on every rank if the names differ between ranks, and for no names, or one that
  // stands there twice.
  World over(const std::vector<std::string>& axes) const;
  // All ranks, row-major over all axes. A rank's number differs from that in the constructor's world if, for example,
  // the launcher numbered ranks in turn over hosts.
  World world() const;

  // The axes, and a table of the ranks' numbers in the job at their places, with the host of each line. The same on
  // every rank.
  std::string to_string() const;

 private:
  detail::Movable<"Mesh", std::shared_ptr<const world::MeshState>> state_;
};

}  // namespace fsdp
