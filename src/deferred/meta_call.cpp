#include "deferred/meta_call.h"

#include "deferred/operator_traits.h"

namespace fsdp::deferred {

namespace {

// The arguments that the operator writes and gives back.
torch::jit::Stack written_arguments(const RecordedOperator& recorded) {
  torch::jit::Stack written;
  if (recorded.operation.schema().returns().empty()) return written;
  for (size_t i = 0; i < recorded.arguments.size(); ++i) {
    if (writes(recorded.operation, i)) written.push_back(recorded.arguments[i]);
  }
  return written;
}

}  // namespace

MetaResults call_on_meta(const RecordedOperator& recorded) {
  MetaResults on_meta{.results = recorded.arguments};
  const auto& names = recorded.operation.schema().arguments();
  for (size_t i = 0; i < names.size(); ++i) {
    c10::IValue& argument = on_meta.results[i];
    if (names[i].name() == "device" && (argument.isDevice() || recorded.taken.empty()))
      argument = torch::Device(torch::kMeta);
    if (names[i].name() == "pin_memory") argument = c10::IValue();
  }
  try {
    recorded.operation.callBoxed(on_meta.results);
  } catch (const c10::NotImplementedError& error) {
    on_meta.results = written_arguments(recorded);
    if (!gives_what_it_writes(recorded.operation)) on_meta.problem = error.what_without_backtrace();
  } catch (const c10::Error& error) {
    on_meta.problem = error.what_without_backtrace();
  }
  return on_meta;
}

}  // namespace fsdp::deferred
