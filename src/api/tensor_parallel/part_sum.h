// Sums over the parts of all ranks, in the order of the parts.
//
// The sum is ((p0 + p1) + p2) + ..., in fp32 (fp64 for fp64), rounded to the parts' dtype once. Ranks exchange parts
// and add them up themselves, because a library's reduction adds up each rank's parts first. Addition is element by
// element, so it does not matter which rank adds up which elements. All ranks call these with as many tensors of the
// same shape.
#pragma once

#include <torch/types.h>

#include <vector>

#include "fsdp/world.h"

namespace fsdp {

// The sum, on every rank. May use the parts' memory.
torch::Tensor sum_over_parts(const std::vector<torch::Tensor>& own, World axis);
// This rank's slice of the sum along `dim`; the axis divides that dimension.
torch::Tensor slice_of_sum(const std::vector<torch::Tensor>& own, World axis, int64_t dim);
// The parts of all ranks, in order.
std::vector<torch::Tensor> all_parts(const std::vector<torch::Tensor>& own, World axis);
// The sum of tensors of this rank.
torch::Tensor added_in_order(const std::vector<torch::Tensor>& parts);

// The slices of all ranks beside each other, along the sequence: dimension 1.
torch::Tensor whole_sequence(const torch::Tensor& slice, World axis);

}  // namespace fsdp
