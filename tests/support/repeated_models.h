// Models whose modules run more than once in a step, and whose graphs run backward more than once, or never.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "support/models.h"

namespace fsdp::testing_models {

// Three linear layers, each a unit, around which the input goes as well.
struct Residual : torch::nn::Module {
  Residual();
  torch::Tensor layer(size_t i, const torch::Tensor& x);
  torch::Tensor forward(torch::Tensor x, const std::vector<size_t>& order = {0, 1, 2});

  torch::nn::ModuleList blocks;
};

constexpr int64_t kResidualBlocks = 3;

// Of a micro-batch.
torch::Tensor residual_input(int64_t micro_batch);

// Makes models of that kind whose loss is `loss`.
using ResidualLoss = std::function<torch::Tensor(Residual& net, int64_t micro_batch)>;
std::function<TestModel()> residual_with(const ResidualLoss& loss);

TestModel make_plain_residual();
// Block 0 twice, block 1 three times, block 2 once.
TestModel make_called_several_times();
// Two forwards, in different orders, whose results meet in one loss.
TestModel make_two_forwards();
// A forward of two blocks whose result is dropped, then the whole.
TestModel make_forward_without_backward();
// Of the input: Gulrajani and others, https://arxiv.org/abs/1704.00028
TestModel make_gradient_penalty();

}  // namespace fsdp::testing_models
