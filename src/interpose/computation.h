// One operator below autograd, with its arguments on the stack.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>

#include <cstddef>
#include <vector>

namespace fsdp::interpose {

// Lives on the operator's thread, while it is performed.
class Computation {
 public:
  Computation(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack& stack)
      : operation_(operation), keys_(keys), stack_(stack) {}

  const c10::OperatorHandle& operation() const { return operation_; }
  size_t arguments() const { return operation_.schema().arguments().size(); }
  const c10::IValue& argument(size_t i) const { return torch::jit::peek(stack_, i, arguments()); }

  // Replaces the arguments by the results.
  void compute();
  // As above. Returns the seconds that it took, also on a device that computes beside its thread.
  double timed_compute();
  void give(std::vector<c10::IValue> results);
  std::vector<c10::IValue> results() const;

 private:
  const c10::OperatorHandle& operation_;
  c10::DispatchKeySet keys_;
  torch::jit::Stack& stack_;
};

}  // namespace fsdp::interpose
