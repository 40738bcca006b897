// Includes little of LibTorch, since it cannot use the precompiled header (src/CMakeLists.txt).
#include "api/operator_arguments.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

namespace fsdp {

namespace {

thread_local OperatorArguments* observing = nullptr;

void see(const c10::IValue& argument) {
  if (argument.isTensor()) {
    (*observing)(argument.toTensor());
  } else if (argument.isList()) {
    for (const c10::IValue& element : argument.toListRef()) see(element);
  }
}

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& call) {
  for (const c10::IValue& argument : call.inputs()) see(argument);
  return nullptr;
}

}  // namespace

OperatorArguments::OperatorArguments(std::function<void(const at::Tensor&)> see)
    : see_(std::move(see)),
      outer_(std::exchange(observing, this)),
      observer_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&operator_begins).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {}

OperatorArguments::~OperatorArguments() {
  at::removeCallback(observer_);
  observing = outer_;
}

}  // namespace fsdp
