// A generator and a discriminator (Goodfellow and others, https://arxiv.org/abs/1406.2661), each a model of its own.
#pragma once

#include <torch/torch.h>

namespace fsdp::testing_models {

struct Gan {
  Gan();  // equal each time
  torch::Tensor discriminator_loss(int64_t micro_batch);
  torch::Tensor generator_loss(int64_t micro_batch);

  torch::nn::Sequential generator, discriminator;  // of three layers

 private:
  torch::Tensor fake(int64_t micro_batch);
  torch::Tensor score(const torch::Tensor& sample);
};

}  // namespace fsdp::testing_models
