// Hooks of a leaf that wait. For gradients that are computed now and arrive later.
#pragma once

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

namespace fsdp::interpose {

// Does nothing.
struct IdleHook final : torch::autograd::FunctionPreHook {
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    return gradients;
  }
};

// While it lives, the hooks of a leaf do not run. They see the gradient when it arrives. The leaf still counts as one
// with hooks: a function that runs again in the backward records the nodes of its first run.
class HooksAside {
 public:
  explicit HooksAside(const torch::Tensor& leaf)
      : leaf_(leaf), hooks_(std::exchange(torch::autograd::impl::hooks(leaf), {})) {
    if (!hooks_.empty()) torch::autograd::impl::hooks(leaf).push_back(std::make_unique<IdleHook>());
  }
  ~HooksAside() { torch::autograd::impl::hooks(leaf_) = std::move(hooks_); }
  HooksAside(const HooksAside&) = delete;
  HooksAside& operator=(const HooksAside&) = delete;

 private:
  torch::Tensor leaf_;
  std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> hooks_;
};

}  // namespace fsdp::interpose
