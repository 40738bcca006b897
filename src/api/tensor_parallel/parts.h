// The parts of a layer: how many there are, and which of them a rank holds.
#pragma once

#include <cstdint>
#include <string>

#include "fsdp/tensor_parallel.h"
#include "layout/unit_layout.h"

namespace fsdp {

// This rank's parts: `count` of `total`, from `first` on.
struct AxisParts {
  int total = 1, first = 0, count = 1;
};

// `parts` as in TensorParallelOptions. Throws Error in the name of `caller` unless it is a multiple of the axis.
AxisParts parts_of(const char* caller, const World& axis, int parts);

// A part's share of `size` elements. If the parts do not divide it, the first ones have one element more.
layout::Range range_of_part(int64_t size, int total, int part);
// The share of all of this rank's parts.
layout::Range range_of_rank(int64_t size, const AxisParts& parts);

// Throws Error in the name of `caller` unless the parts divide the features, which are called `name`.
void check_divides(const char* caller, const char* name, int64_t features, const AxisParts& parts, const World& axis);

// The sequence is dimension 1 of [batch, sequence, ...]. Throws Error for other shapes, and if `parts` do not divide
// it.
void check_sequence(const char* caller, const torch::Tensor& tensor, int parts);

}  // namespace fsdp
