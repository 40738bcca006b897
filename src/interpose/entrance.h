// A node between a leaf and a graph that begins with it. Behind it the tensor is no leaf, so the graph may change it in
// place, as a graph that goes on from another one may.
#pragma once

#include <torch/types.h>

namespace fsdp::interpose {

// `leaf` requires gradients. The result shares its memory and its count of writes in place.
torch::Tensor enter(const torch::Tensor& leaf);

}  // namespace fsdp::interpose
