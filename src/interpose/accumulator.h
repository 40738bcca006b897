// The end of a parameter's backward graph: hands its gradient to the listener instead of storing it in `grad`.
//
// Threads: gradients arrive on autograd's threads for backward passes.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "interpose/unit_storage.h"

namespace fsdp::interpose {

// Installs one on a leaf whose bytes are `storage`'s, the parameter `index` of that unit; it acts as long as the
// returned owner lives, or a graph that leads to it. Hooks on the parameter keep working. A gradient with a graph of
// its own, as backward(create_graph) makes, is an error.
std::shared_ptr<void> install_accumulator(const torch::Tensor& parameter,
                                          const c10::intrusive_ptr<UnitStorage>& storage, int index);

// The links of all parameters from which the tensor was computed, as far as its graph shows; each once.
std::vector<std::shared_ptr<Link>> links_behind(const torch::Tensor& tensor);

// The leaf whose gradient ends at the node: an accumulator of ours, or autograd's own. Undefined for other nodes.
torch::Tensor leaf_of(const torch::autograd::Node& node);
// True if functions of the user see gradients before or behind the node.
bool has_hooks(torch::autograd::Node& node);

// True if the tensor is such a leaf without hooks, so that only its listener sees its gradient.
bool gradient_goes_in_place(const torch::Tensor& parameter);
// True if the tensor is the transpose of such a leaf, without hooks of its own, and its t() was autograd's last record
// on this thread. Then the leaf's gradient arrives right after the transpose's.
bool gradient_of_transposed_goes_in_place(const torch::Tensor& transposed);
// Listener::gradient_destination for the leaf, which is given itself or by its transpose, in the backward that makes
// the gradient. Undefined where hooks were registered since, and where the gradient goes to the user as well or has a
// graph of its own.
torch::Tensor gradient_destination(const torch::Tensor& parameter);

}  // namespace fsdp::interpose
