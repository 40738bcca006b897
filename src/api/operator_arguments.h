// The tensors that operators take, as LibTorch's own observer of operators sees them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace fsdp {

// While it lives, `see` gets every tensor among the arguments of each operator that this thread begins. If several
// live, the latest sees.
class OperatorArguments {
 public:
  explicit OperatorArguments(std::function<void(const at::Tensor&)> see);
  ~OperatorArguments();
  OperatorArguments(const OperatorArguments&) = delete;
  OperatorArguments& operator=(const OperatorArguments&) = delete;

  void operator()(const at::Tensor& tensor) const { see_(tensor); }

 private:
  std::function<void(const at::Tensor&)> see_;
  OperatorArguments* outer_;
  uint64_t observer_;
};

}  // namespace fsdp
