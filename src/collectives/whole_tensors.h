// Collectives made of a group's operations on tensors (tensor_operations.h), for every backend at once.
//
// Arguments are as those of the operations. Every rank calls them in the same order. Facts that the first operation is
// to compare (TensorOperations::compare) may differ: then nothing has changed, and a returned tensor or list is
// undefined or empty.
#pragma once

#include <torch/types.h>

#include <vector>

#include "collectives/group.h"
#include "fsdp/reduce_op.h"

namespace fsdp::collectives {

// The ranks' tensors, combined in the root's; the others keep their values.
void reduce_(Group& group, torch::Tensor& tensor, int root, ReduceOp op);

// This rank's part of the ranks' tensors, combined: [d0 / size, ...] of [d0, ...], where the size divides d0.
torch::Tensor reduce_scatter(Group& group, const torch::Tensor& tensor, ReduceOp op);

// The ranks' tensors, of one shape, on the root; empty elsewhere.
std::vector<torch::Tensor> gather(Group& group, const torch::Tensor& tensor, int root);

// This rank's part of the source's list, which has one for each rank, of any shapes and dtypes. Other ranks' lists are
// not read. `device`: of the group.
torch::Tensor scatter(Group& group, const std::vector<torch::Tensor>& parts, int source, torch::Device device);

// From each rank its tensor for this one. The lists have one for each rank, of any shapes and dtypes.
std::vector<torch::Tensor> all_to_all(Group& group, const std::vector<torch::Tensor>& parts, torch::Device device);

}  // namespace fsdp::collectives
