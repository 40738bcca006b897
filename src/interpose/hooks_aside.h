// Hooks of a leaf that wait. For gradients that are computed now and arrive later.
#pragma once

#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

namespace fsdp::interpose {

// While it lives, the hooks of a leaf do not run. They see the gradient when it arrives.
class HooksAside {
 public:
  explicit HooksAside(const torch::Tensor& leaf)
      : leaf_(leaf), hooks_(std::exchange(torch::autograd::impl::hooks(leaf), {})) {}
  ~HooksAside() { torch::autograd::impl::hooks(leaf_) = std::move(hooks_); }
  HooksAside(const HooksAside&) = delete;
  HooksAside& operator=(const HooksAside&) = delete;

 private:
  torch::Tensor leaf_;
  std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> hooks_;
};

}  // namespace fsdp::interpose
