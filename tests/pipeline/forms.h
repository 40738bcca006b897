// Pipelines of blocks of any form, compared with the same blocks one after the other in one process.
#pragma once

#include <fsdp/fsdp.h>

#include <functional>
#include <string>
#include <vector>

namespace fsdp::testing_models {

inline constexpr int64_t kFormWidth = 8;

torch::Tensor input_of(int number);  // [1 to 3, kFormWidth]
torch::Tensor square_sum(const torch::Tensor& output, const torch::Tensor& target);

struct FormCase {
  std::vector<PipelineBlock> blocks;
  // In the plain model block i runs with the module of block modules[i]: parameters that several blocks share are one.
  // Empty: each with its own.
  std::vector<size_t> modules = {};
  std::function<void(torch::nn::Module& block, const std::string& name)> prepare = [](auto&, const auto&) {};
  std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)> loss = square_sum;
  // Called before each step with the parameters that the rank has, and its number.
  std::function<void(const std::vector<torch::Tensor>& parameters, int step)> before_step = [](const auto&, int) {};
  // Runs all passes of a step: for guards around them.
  std::function<void(const std::function<void()>& passes)> around = [](const auto& passes) { passes(); };
  bool accumulates = false;  // gradients are not set to zero between steps
};

// Expects the parameters and buffers of one process after some steps, and its losses.
void expect_form(World& world, const FormCase& form, const PipelineOptions& options);
// On 1, 2 and 3 ranks, and with several stages per rank.
void expect_form_on_ranks(const std::function<FormCase()>& make);

// Four linear layers a, b, c, d, with a function of the input before each.
using FormForward = std::function<Tensors(torch::nn::LinearImpl& layer, const Tensors& inputs)>;
FormCase four_layers(const std::vector<FormForward>& forwards);

}  // namespace fsdp::testing_models
