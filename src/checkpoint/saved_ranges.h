// Where elements of a parameter lie in the files of a checkpoint, into however many it was cut. Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/manifest.h"
#include "layout/unit_layout.h"

namespace fsdp::checkpoint {

// Elements of the tensor that a shard's file has of the parameter, and where they belong.
struct SavedRange {
  int shard = 0;
  int64_t first = 0;  // within the tensor in the file
  int64_t numel = 0;
  int64_t at = 0;     // within a tensor for the elements that are wanted
  int64_t whole = 0;  // elements of the tensor in the file
  bool operator==(const SavedRange&) const = default;
};

// The saved ranges of the elements `wanted`, in their order. `numel_each` elements of the parameter have one of the
// tensor: 1, or 64 for the scales of Block8 states. Throws Error where pieces begin within one of those, or end before
// `wanted` does.
std::vector<SavedRange> saved_ranges(const std::vector<Manifest::Piece>& pieces, layout::Range wanted,
                                     int64_t numel_each);

}  // namespace fsdp::checkpoint
