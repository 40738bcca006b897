// The places of ranks in a grid (include/fsdp/mesh.h): from their hosts and the axes to coordinates. Pure.
//
// Ranks are laid row-major over the axes, so that the last axis changes fastest. The order of the ranks:
// 1. Hosts come in the order of their lowest ranks, and ranks of a host in the order of their numbers.
// 2. As many groups of the last axis as possible lie on one host each. Ranks that are left over on their hosts form
//    the other groups, in the order of rule 1.
// 3. These groups are joined along the axis before in the same way, and so on up to the first axis.
// 4. Groups that are joined come in the order of their first ranks. So rank 0 has coordinate 0 on every axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "world/axes.h"

namespace fsdp::world {

struct HostOfRank {
  int64_t number = 0;  // equal on ranks of one host
  std::string name;    // for messages; several hosts may have one name
};

// Immutable; any thread.
class Grid {
 public:
  // `hosts` by rank. The axes fit the ranks (check_axes).
  Grid(Axes axes, const std::vector<HostOfRank>& hosts);

  const Axes& axes() const { return axes_; }
  // By position, row-major over the axes.
  const std::vector<int>& ranks() const { return ranks_; }
  int position_of(int rank) const { return positions_[rank]; }
  int coordinate(int position, size_t axis) const;
  // A number that is equal on the positions that differ along these axes alone.
  int group_of(int position, const std::vector<size_t>& along) const;

 private:
  int stride(size_t axis) const;  // between neighbours along the axis, in positions

  Axes axes_;
  std::vector<int> ranks_;
  std::vector<int> positions_;  // by rank
};

}  // namespace fsdp::world
