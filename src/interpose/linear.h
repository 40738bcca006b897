// Linear layers whose weight is a sharded parameter: the weight's gradient is written where it is summed up, instead of
// being made elsewhere and copied.
#pragma once

#include <torch/types.h>

#include <optional>

namespace fsdp::interpose {

// Whether `linear_in_place` does for these arguments what at::linear does: autograd records, and the weight is a
// parameter of a unit, contiguous, and without hooks that would see its gradient; the input is dense and of its dtype.
bool linear_goes_in_place(const torch::Tensor& input, const torch::Tensor& weight,
                          const std::optional<torch::Tensor>& bias);

// at::linear, with the same bits in all gradients: input [..., columns], weight [rows, columns], bias [rows]. Its
// backward asks the listener for the place of the weight's gradient.
torch::Tensor linear_in_place(const torch::Tensor& input, const torch::Tensor& weight,
                              const std::optional<torch::Tensor>& bias);

}  // namespace fsdp::interpose
