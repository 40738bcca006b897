#include "interpose/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>

#include "interpose/activations.h"
#include "interpose/frequent_operators.h"
#include "interpose/touches.h"

namespace fsdp::interpose {

namespace {

// The facts of a schema, worked out once per operator and thread.
struct Traits {
  bool is_view = false;  // returns only views of arguments: reads no bytes itself
  ArgumentDtypes dtypes = ArgumentDtypes::AsTheyAre;
  std::vector<ArgumentTraits> arguments;
  std::string name;
};

Traits make_traits(const c10::FunctionSchema& schema) {
  Traits traits;
  traits.name = schema.operator_name().name;
  traits.dtypes = argument_dtypes(traits.name);
  for (const c10::Argument& argument : schema.arguments()) {
    traits.arguments.push_back(argument_traits(argument));
  }
  // set_data, and with it module->to(), shows itself by the question whether it may.
  if (traits.name == "aten::_has_compatible_shallow_copy_type") {
    traits.name = kSetData;
    traits.arguments[0].written = true;
  }
  traits.is_view = !schema.returns().empty() && std::ranges::none_of(traits.arguments, &ArgumentTraits::written) &&
                   std::all_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
                     return result.alias_info() && !result.alias_info()->isWrite();
                   });
  return traits;
}

const Traits& traits_of(const c10::OperatorHandle& operation) {
  thread_local ska::flat_hash_map<const c10::FunctionSchema*, std::unique_ptr<Traits>> known;
  std::unique_ptr<Traits>& traits = known[&operation.schema()];
  if (!traits) traits = std::make_unique<Traits>(make_traits(operation.schema()));
  return *traits;
}

void note_views(const c10::OperatorHandle& operation, const torch::jit::Stack& stack) {
  for (const c10::IValue& value : torch::jit::last(stack, operation.schema().returns().size())) {
    if (value.isTensor()) note_view(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& view : value.toTensorVector()) note_view(view);
  }
}

void on_operator(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Traits& traits = traits_of(operation);
  if (traits.is_view) {  // one that copies after all, such as reshape, meets us again in its inner operators
    for (const c10::IValue& value : torch::jit::last(*stack, traits.arguments.size())) {
      if (value.isTensor()) announce_view(value.toTensor());
    }
    operation.redispatchBoxed(keys_below(keys), stack);
    if (RecordedScope::current() != nullptr) [[unlikely]]
      note_views(operation, *stack);
    return;
  }
  Touches touches;
  auto arguments = torch::jit::last(*stack, traits.arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) touches.add(arguments[i], traits.arguments[i].written);
  if (OperatorRecorder* recorder = recorder_of(touches)) [[unlikely]] {
    recorder->operator_called(operation, keys_below(keys), *stack);
    return;
  }
  Pins pins(touches, traits.name.c_str());
  if (traits.dtypes != ArgumentDtypes::AsTheyAre && !touches.empty() && touches.first().casts_activations()) {
    cast_arguments(*stack, traits.arguments, traits.dtypes, touches.first());
  }
  operation.redispatchBoxed(keys_below(keys), stack);
  pins.operator_returned(traits.name.c_str());
}

}  // namespace

void ensure_fallback() { ensure_frequent_operators(); }

}  // namespace fsdp::interpose

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fsdp::interpose::on_operator>());
}
