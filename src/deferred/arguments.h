// An operator's boxed arguments, as a recording takes them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/types.h>

namespace fsdp::deferred {

// Takes the operator's arguments off the stack.
torch::jit::Stack take_arguments(const c10::OperatorHandle& operation, torch::jit::Stack& stack);
void push_all(torch::jit::Stack& stack, torch::jit::Stack values);

// Tensors among the arguments: of which kinds, and which of these the operator writes.
struct TensorsTaken {
  bool deferred = false, real = false, writes_deferred = false, writes_real = false;
};

TensorsTaken tensors_taken(const c10::OperatorHandle& operation, const torch::jit::Stack& arguments);

// On which device the results will be.
torch::Device device_of(const c10::OperatorHandle& operation, const torch::jit::Stack& arguments);

}  // namespace fsdp::deferred
