// Layers drawn at random, from which a random model is built. Each maps [batch, length, width] to the same shape.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "property/random_source.h"

namespace fsdp::property {

struct Layer : torch::nn::Module {
  std::string description;
  std::function<torch::Tensor(const torch::Tensor&)> run;
};

// `x` in the dtype of the weight that it meets: the cast that the library makes by itself where the weight is sharded.
torch::Tensor like(const torch::Tensor& x, const torch::Tensor& weight);

// One of: two linears, LayerNorm, Conv2d (perhaps channels-last), BatchNorm, LSTM, MultiheadAttention, dropout, a
// scalar gain.
std::shared_ptr<Layer> random_layer(RandomSource& random, int64_t width);

// A linear layer whose weight is another module's.
std::shared_ptr<Layer> tied_layer(const torch::Tensor& weight);

}  // namespace fsdp::property
