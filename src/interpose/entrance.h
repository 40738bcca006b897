// A node between a leaf and a graph that begins with it. Behind it the tensor is no leaf, so the graph may change it in
// place, as a graph that goes on from another one may.
#pragma once

#include <torch/types.h>

#include <memory>

namespace fsdp::interpose {

// `leaf` requires gradients. The result shares its memory and its count of writes in place. A backward writes its
// gradient to `gradient`, with the strides that the graph made, and not to the leaf's grad.
torch::Tensor enter(const torch::Tensor& leaf, std::shared_ptr<torch::Tensor> gradient);

}  // namespace fsdp::interpose
