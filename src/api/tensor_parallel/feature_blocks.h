// The rows of a column-parallel layer: blocks of heads, each divided among the parts on its own.
//
//   heads 0 1 2 3 | 0 1     whole: a block of 4 heads and one of 2, in 4 parts
//   part  0 1 2 3 | 0 2     parts 0 and 1 share head 0 of the second block, parts 2 and 3 its head 1
//
//   rank 1 of 2 holds heads 2 3 | 1, once each. Its output has a head for each of its parts: 2 3 | 1 1.
//
// Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "api/tensor_parallel/parts.h"

namespace fsdp {

// A block on one rank. Parts are counted from the rank's first one.
struct BlockDivision {
  layout::Range of_whole = {};  // the rank's rows in the whole weight
  int64_t own_first = 0;        // where they begin in the rank's weight
  int64_t part_rows = 0;        // of each part: rows of the weight, and features of the output
  int sharers = 1;              // so many parts in turn use the same rows
  AxisParts parts = {};

  // In the rank's weight.
  layout::Range rows_of_part(int part) const {
    const int64_t first = own_first + ((parts.first + part) / sharers - parts.first / sharers) * part_rows;
    return {first, first + part_rows};
  }
  int64_t features() const { return part_rows * parts.count; }  // of the rank's output
};

struct ColumnDivision {
  std::vector<BlockDivision> blocks = {};
  AxisParts parts = {};

  int64_t rows() const;      // of the rank's weight
  int64_t features() const;  // of the rank's output
};

// Throws Error for blocks that are not `out_features`, or that the parts do not divide.
ColumnDivision divide_columns(int64_t out_features, const World& axis, const TensorParallelOptions& parallel);

}  // namespace fsdp
