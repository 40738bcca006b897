// Which part of a tensor a rank holds, and what two parts have in common.
//
// A box is a range in each dimension of the whole tensor: some rows of a matrix, some columns, or all of it. Its
// elements are numbered in row-major order. A rank holds a range of these numbers: a shard of the box.
//
//   whole shape [4, 6], box rows 0 to 4 and columns 3 to 6, range 0 to 8      the elements of a rank, by number
//                                                                                . . . 0 1 2
//   Tensor parallelism gives ranks boxes; sharding divides a box.                . . . 3 4 5
//                                                                                . . . 6 7 .
//                                                                                . . . . . .
//
// Pure arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/unit_layout.h"

namespace fsdp::layout {

struct Placement {
  std::vector<int64_t> shape;  // of the whole tensor
  std::vector<Range> box;      // by dimension; within the shape
  Range range;                 // of the box's elements; within its numel

  int64_t numel() const { return range.numel(); }
  int64_t box_numel() const;
  bool is_whole_box() const;  // the box is the whole tensor
  bool operator==(const Placement&) const = default;
};

// The elements of `range` of a whole tensor.
Placement part_of_whole(std::vector<int64_t> shape, Range range);
// All elements of a box.
Placement all_of_box(std::vector<int64_t> shape, std::vector<Range> box);

// The part of a placement in the first `rows` of the tensor, as a placement in a tensor with only these rows. It has
// the first elements of `placement`, and maybe all. The tensor has at least one dimension.
Placement first_rows(const Placement& placement, int64_t rows);

// Elements that two placements have in common: `count` runs of `numel` elements, which follow each other in both. The
// numbers count from the first element of each placement.
struct CommonRuns {
  int64_t a = 0, b = 0;  // the first run's first element
  int64_t numel = 0;     // of each run
  int64_t count = 1;
  int64_t step_a = 0, step_b = 0;  // from one run's first element to the next
  bool operator==(const CommonRuns&) const = default;
};

// All that both placements have, ascending in both. A matrix needs at most 3 of these, however many rows it has.
// Placements of different shapes have nothing in common.
std::vector<CommonRuns> common_runs(const Placement& a, const Placement& b);

// Why placements do not make up a tensor of `shape`, each element once: the number of the one at fault, and what was
// expected of it. An empty text: they do. Those of one box follow each other, by ascending ranges, none of them empty.
struct TilingProblem {
  size_t placement = 0;
  std::string expected;
};
TilingProblem tiling_problem(const std::vector<int64_t>& shape, const std::vector<const Placement*>& placements);

}  // namespace fsdp::layout
