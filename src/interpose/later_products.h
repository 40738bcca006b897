// A backward in two: first the gradients of a module's inputs, and later those of its parameters. In a pipeline the
// stage before waits for the first, and the second fill the time in which a stage has nothing else to do (Qi et al.,
// "Zero Bubble Pipeline Parallelism", 2024).
//
//   LaterProducts later;
//   gradients = later.backward_to_inputs({output}, {gradient of it}, {input});
//   ...
//   later.run();
//
// The first part leaves the product of each linear layer that makes its weight's gradient, and the backward of each
// embedding. It computes the gradients of other parameters, as biases, and keeps them. The second part is a backward of
// its own: parameters get their gradients in it, in the order of an undivided backward. It has the nodes, the places in
// autograd's queue and so the bits of that. The graph needs no forward of its own: modules may be sharded or not.
//
// Memory: between the two parts, the inputs and the gradients of the results of those layers, and the gradients of the
// other parameters. The rest of the graph is freed, and sharded units need not be full in the second part. No report of
// the library counts these tensors.
#pragma once

#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <vector>

#include "interpose/libtorch_versions.h"
#include "interpose/saved_tensors.h"

namespace fsdp::interpose {

// Threads: one at a time calls it. On GPUs autograd's threads compute, as in any backward.
class LaterProducts {
 public:
  LaterProducts() = default;
  LaterProducts(LaterProducts&&) = default;
  LaterProducts& operator=(LaterProducts&&) = default;

  // Backward from `outputs`, which require gradients, given the gradient of each; an undefined one is 1, for an output
  // of one element. Returns the gradients of `inputs`, which are leaves: undefined for an input that no output depends
  // on. Nothing arrives in `grad`. Hooks on tensors of the graph and on the inputs run now, those on other leaves in
  // `run`.
  //
  // A parameter's gradient is computed now and kept where an operator of another kind uses the parameter too. Nodes
  // that run a backward of their own (ReversibleSequence) add their parameters' gradients now.
  //
  // Gradients keep no graph: there is no create_graph. With `retain_graph` the outputs may have another backward, and
  // `run` leaves its part of the graph too. Throws Error for other tensors, and for products that still wait. If it
  // throws, nothing is left.
  std::vector<torch::Tensor> backward_to_inputs(const std::vector<torch::Tensor>& outputs,
                                                const std::vector<torch::Tensor>& gradients,
                                                const std::vector<torch::Tensor>& inputs, bool retain_graph = false);
  // A gradient that has been computed already: it arrives at the leaf in `run`.
  void add(const torch::Tensor& leaf, const torch::Tensor& gradient);
  // The rest, once. Throws c10::Error, as a whole backward would, if a weight, a layer's input or a gradient was
  // modified in place since the first part, for example by an optimizer. If it throws, the products are gone.
  void run();
  // True if nothing waits for `run`.
  bool empty() const { return nodes_.empty(); }

 private:
  std::vector<NodeOwner> nodes_;     // at which the second backward begins
  std::vector<KeptTensor> weights_;  // whose products are left
  bool retain_graph_ = false;
};

}  // namespace fsdp::interpose
