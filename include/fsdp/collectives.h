// Collectives of a World in autograd's graph, for layers that are divided over ranks.
//
// Each returns a new tensor. Its backward is a collective of the same ranks, so all ranks run the same backward. The
// gradients are those of one process that computes all ranks' parts, and that adds up their losses. Gradients of
// gradients work as well.
//
// Tensors are as those of World's calls, floating or complex, and of one shape on all ranks (all_to_all: any shapes).
// `dim` counts from the end if it is negative. Errors are those of World's calls.
#pragma once

#include <torch/types.h>

#include <vector>

#include "fsdp/world.h"

namespace fsdp::differentiable {

// How ranks use a result that is the same on all of them.
enum class ResultUse {
  // Each rank computes something of its own from it. Its gradient is the sum of all ranks' gradients.
  PerRank,
  // All ranks compute the same from it, as one process does once: their gradients are equal, and one of them counts.
  Alike,
};

// The sum over the ranks.
// Backward: PerRank: the sum of the gradients. Alike: the gradient itself.
torch::Tensor all_reduce(const torch::Tensor& tensor, World world, ResultUse use = ResultUse::PerRank);

// All ranks' tensors beside each other along `dim`, in rank order.
// Backward: PerRank: reduce_scatter of the gradient. Alike: this rank's part of it.
torch::Tensor all_gather(const torch::Tensor& tensor, World world, int64_t dim = 0, ResultUse use = ResultUse::PerRank);

// This rank's part along `dim` of the sum over the ranks; the number of ranks divides that dimension.
// Backward: all_gather of the gradient.
torch::Tensor reduce_scatter(const torch::Tensor& tensor, World world, int64_t dim = 0);

// `tensors[r]` goes to rank r. Returns the tensors that came, by rank. If a rank uses no tensor that came from this
// one, the gradient of that one is zeros. Backward: all_to_all of the gradients.
std::vector<torch::Tensor> all_to_all(const std::vector<torch::Tensor>& tensors, World world);

}  // namespace fsdp::differentiable
