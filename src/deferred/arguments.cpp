#include "deferred/arguments.h"

#include <optional>
#include <utility>

#include "deferred/operator_traits.h"
#include "deferred/tensors_within.h"
#include "interpose/deferred_tensor.h"

namespace fsdp::deferred {

using interpose::DeferredStorage;
using torch::jit::Stack;

Stack take_arguments(const c10::OperatorHandle& operation, Stack& stack) {
  const size_t count = operation.schema().arguments().size();
  Stack arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  torch::jit::drop(stack, count);
  return arguments;
}

void push_all(Stack& stack, Stack values) {
  for (c10::IValue& value : values) stack.push_back(std::move(value));
}

TensorsTaken tensors_taken(const c10::OperatorHandle& operation, const Stack& arguments) {
  TensorsTaken taken;
  for (size_t i = 0; i < arguments.size(); ++i) {
    for_each_tensor(arguments[i], [&](const torch::Tensor& tensor) {
      const bool deferred = DeferredStorage::of(tensor) != nullptr;
      (deferred ? taken.deferred : taken.real) = true;
      if (writes(operation, i)) (deferred ? taken.writes_deferred : taken.writes_real) = true;
    });
  }
  return taken;
}

torch::Device device_of(const c10::OperatorHandle& operation, const Stack& arguments) {
  std::optional<torch::Device> device;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (operation.schema().arguments()[i].name() == "device" && arguments[i].isDevice()) return arguments[i].toDevice();
    for_each_tensor(arguments[i], [&](const torch::Tensor& tensor) {
      if (!device) device = tensor.device();
    });
  }
  return device.value_or(torch::kCPU);
}

}  // namespace fsdp::deferred
