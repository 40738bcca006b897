// Linear layers whose weight is a sharded parameter: the weight's gradient is written where it is summed up, instead of
// being made elsewhere and copied.
//
// at::linear takes the weight itself, torch::nn::Linear multiplies by its transpose (addmm, matmul). Both become a node
// of ours in autograd's graph, whose products are autograd's own: the bits are those of plain LibTorch, in the result
// and in all gradients. The node's backward asks the listener for the place of the weight's gradient.
#pragma once

#include <torch/types.h>

#include <optional>

#include "interpose/weight_product.h"

namespace fsdp::interpose {

// True if `linear_in_place` can replace at::linear for these arguments: autograd records, and the weight is a
// contiguous parameter of a unit whose gradient has no other user. The input is dense, contiguous and of the weight's
// dtype.
bool linear_goes_in_place(const torch::Tensor& input, const torch::Tensor& weight,
                          const std::optional<torch::Tensor>& bias);

// at::linear: input [..., columns], weight [rows, columns], bias [rows].
torch::Tensor linear_in_place(const torch::Tensor& input, const torch::Tensor& weight,
                              const std::optional<torch::Tensor>& bias);

// at::mm and at::matmul with such a weight's transpose, which was made just before.
bool product_goes_in_place(const torch::Tensor& input, const torch::Tensor& transposed);
torch::Tensor product_in_place(const torch::Tensor& input, const torch::Tensor& transposed);

// at::addmm, with a bias [rows] and without factors: beta and alpha are 1.
bool product_goes_in_place(const torch::Tensor& bias, const torch::Tensor& input, const torch::Tensor& transposed,
                           const torch::Scalar& beta, const torch::Scalar& alpha);
torch::Tensor product_in_place(const torch::Tensor& bias, const torch::Tensor& input, const torch::Tensor& transposed,
                               const torch::Scalar& beta, const torch::Scalar& alpha);

// True if the node is one of these layers'. The weight's edge is number 1.
bool is_linear_in_place(const torch::autograd::Node& node);
// A backward of the layer in which autograd does not want the weight's gradient passes its product to `leave`; none:
// it does not.
void leave_product(torch::autograd::Node& layer, LeaveProduct leave);

}  // namespace fsdp::interpose
