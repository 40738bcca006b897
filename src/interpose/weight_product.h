// The products that make the gradients of layers' weights, and how a backward leaves them to a later one.
//
// Nodes of three kinds multiply by a matrix that has a gradient: those of linear.h, over sharded parameters, and
// autograd's own nodes of mm and addmm, over any. If autograd does not want the matrix's gradient in a backward, a node
// computes the rest of its gradients alone. Then the two factors of the product are all that the gradient needs.
//
// Threads: a backward leaves products on its own threads.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <optional>

#include "interpose/saved_tensors.h"

namespace fsdp::interpose {

enum class ProductForm {
  Weight,      // [rows of the weight, columns]: at::linear's
  Transposed,  // the same, of which the transpose is the gradient: t() of the weight was multiplied by
  Columns,     // of a matrix [columns of the input, columns of the result]: mm(input, weight)
};

// The gradient of a weight, given the layer's input and the gradient of its result as matrices. `weight` is as the
// layer took it, or undefined if it is no sharded parameter. The listener's place for the gradient is asked for now
// (gradient_destination).
torch::Tensor weight_gradient(const torch::Tensor& weight, const torch::Tensor& input, const torch::Tensor& gradient,
                              ProductForm form);

// One that is not computed yet.
struct WeightProduct {
  torch::Tensor weight;
  KeptTensor input;
  KeptTensor gradient;
  ProductForm form = ProductForm::Weight;

  // Throws c10::Error if a factor was modified in place since.
  torch::Tensor compute() const { return weight_gradient(weight, input.get(), gradient.get(), form); }
};

using LeaveProduct = std::function<void(WeightProduct)>;

// The number of the weight's edge, if the node is of one of these kinds and has no hooks.
std::optional<size_t> weight_edge(torch::autograd::Node& node);

// While it lives, the node's backward passes the weight's product to `leave`, if autograd does not want the weight's
// gradient. The node has a `weight_edge`, and outlives this.
class LeavingProduct {
 public:
  LeavingProduct(torch::autograd::Node& node, LeaveProduct leave);
  ~LeavingProduct();
  LeavingProduct(const LeavingProduct&) = delete;
  LeavingProduct& operator=(const LeavingProduct&) = delete;

 private:
  torch::autograd::Node& node_;
};

}  // namespace fsdp::interpose
