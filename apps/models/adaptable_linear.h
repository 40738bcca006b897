// A linear layer that may have a low-rank adapter.
#pragma once

#include <torch/torch.h>

#include "models/model_config.h"

namespace models {

// torch::nn::Linear, with the name and the bits of its parameters, until it gets an adapter. The adapter's parameters
// are `lora_A.weight` [rank, in] and `lora_B.weight` [out, rank], as the Python package peft calls them.
class AdaptableLinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  // A as torch::nn::Linear's first weights, B zeros: the layer gives the same as before. Once.
  void add_adapter(const Lora& lora);
  torch::Tensor forward(const torch::Tensor& input);

 private:
  torch::nn::Linear lora_A_{nullptr}, lora_B_{nullptr};
  double scale_ = 0, dropout_ = 0;
};
TORCH_MODULE(AdaptableLinear);

}  // namespace models
