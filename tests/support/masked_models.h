// Models whose forward writes their parameters: convolutions with masks, as in PixelCNN
// (https://arxiv.org/abs/1601.06759).
#pragma once

#include <torch/torch.h>

#include <functional>

#include "support/models.h"

namespace fsdp::testing_models {

// Applies the mask to the weight, in place.
using WriteMask = std::function<void(torch::Tensor weight, const torch::Tensor& mask)>;

// The ways in which programs write it.
std::vector<std::pair<std::string, WriteMask>> ways_to_write_masks();

struct MaskedConvolutionImpl : torch::nn::Module {
  MaskedConvolutionImpl(int64_t in, int64_t out, WriteMask write);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight, bias, mask;
  WriteMask write;
};
TORCH_MODULE(MaskedConvolution);

// A layer for each way, whose weights are full of values at first.
struct MaskedNetImpl : torch::nn::Module {
  MaskedNetImpl();
  torch::Tensor forward(torch::Tensor x);

  torch::nn::ModuleList layers;
};
TORCH_MODULE(MaskedNet);

torch::Tensor masked_net_loss(MaskedNetImpl& net, int64_t micro_batch);
TestModel make_masked();

}  // namespace fsdp::testing_models
