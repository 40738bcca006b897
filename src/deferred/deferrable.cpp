#include "deferred/deferrable.h"

#include <ATen/CPUGeneratorImpl.h>

#include "base/error.h"
#include "deferred/arguments.h"
#include "deferred/operator_traits.h"
#include "deferred/tensors_within.h"

namespace fsdp::deferred {

void check_deferrable(const interpose::OperatorRecorder& recorder, const c10::OperatorHandle& operation,
                      const torch::jit::Stack& arguments) {
  const auto& schema = operation.schema();
  FSDP_CHECK(!name_of(operation).starts_with("aten::resize"),
             "deferred_init: {} cannot be deferred. Make a tensor of the size that is wanted.", name_of(operation));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& argument = arguments[i];
    if (argument.isGenerator()) {
      FSDP_CHECK(argument.toGenerator() == at::detail::getDefaultCPUGenerator(),
                 "deferred_init: {} draws from a generator of its own, and numbers of the CPU's default one alone can "
                 "be drawn later. Use that (torch::manual_seed).",
                 name_of(operation));
    }
    const bool sparse =
        schema.arguments()[i].name() == "layout" && argument.isInt() && argument.toLayout() != torch::kStrided;
    FSDP_CHECK(!sparse, "deferred_init: {} makes a tensor that is not dense. Make it outside.", name_of(operation));
    for_each_tensor(argument, [&](const torch::Tensor& tensor) {
      const auto* storage = interpose::DeferredStorage::of(tensor);
      FSDP_CHECK(storage == nullptr || storage->recorder().get() == &recorder,
                 "deferred_init: {} takes a tensor of another deferred_init. Make both in one.", name_of(operation));
      FSDP_CHECK(storage == nullptr || !(tensor.is_conj() || tensor.is_neg()),
                 "deferred_init: {} takes a conjugate view. Call resolve_conj() first.", name_of(operation));
    });
  }
  FSDP_CHECK(!draws_numbers(operation) || device_of(operation, arguments).is_cpu(),
             "deferred_init: {} draws on {}. Make the module on the CPU, and move it inside deferred_init "
             "(module->to(device)).",
             name_of(operation), device_of(operation, arguments).str());
}

}  // namespace fsdp::deferred
