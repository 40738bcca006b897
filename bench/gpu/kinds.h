// Kinds of models that the library's own tests do not have in this form, each with its loss on made-up data.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpu {

struct Kind {
  std::string name;
  // A model with its first values, on the CPU.
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  // The loss of the micro-batch with this number, on the model's device.
  std::function<torch::Tensor(torch::nn::Module& model, int64_t micro_batch)> loss;
};

// An encoder with a decoder, GRU and convolutions, adapters, experts.
std::vector<Kind> all_kinds();

}  // namespace gpu
