// Where elements of a parameter lie in the files of a checkpoint, into whatever parts it was divided. Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/manifest.h"
#include "layout/placement.h"

namespace fsdp::checkpoint {

// Elements of the tensor that a file has of the parameter, and where they belong: `count` runs of `numel` elements.
struct SavedRange {
  int file = 0;
  int64_t first = 0;  // of the first run, within the tensor in the file
  int64_t numel = 0;  // of each run
  int64_t at = 0;     // where the first run belongs, within a tensor for the elements that are wanted
  int64_t whole = 0;  // elements of the tensor in the file
  int64_t count = 1;
  int64_t step = 0, step_at = 0;  // from one run to the next, in both tensors
  bool operator==(const SavedRange&) const = default;
};

// The saved ranges of the elements `wanted`, by the parts that have them. `numel_each` elements of the parameter have
// one of the tensor: 1, or 64 for the scales of Block8 states. Throws Error where a run begins within one of those, and
// where the parts lack elements.
std::vector<SavedRange> saved_ranges(const std::vector<Manifest::Part>& parts, const layout::Placement& wanted,
                                     int64_t numel_each);

// Elements of a tensor with one for `numel_each` of those of the parameter.
int64_t blocks_of(int64_t numel, int64_t numel_each);

}  // namespace fsdp::checkpoint
