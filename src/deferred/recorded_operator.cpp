#include "deferred/recorded_operator.h"

#include "deferred/operator_traits.h"
#include "deferred/tensors_within.h"
#include "interpose/deferred_tensor.h"

namespace fsdp::deferred {

using interpose::DeferredStorage;

namespace {

// A number of the program's, such as the factor in `x * 0.5`, decides less about dtypes than a tensor does.
torch::Tensor as_number(const torch::Tensor& tensor, torch::Tensor copy) {
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

bool covers_storage(const torch::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && tensor.nbytes() == tensor.storage().nbytes();
}

}  // namespace

TensorPlace place_of(const torch::Tensor& tensor) {
  const DeferredStorage* storage = DeferredStorage::of(tensor);
  TensorPlace place{.sizes = tensor.sizes().vec(),
                    .strides = tensor.strides().vec(),
                    .offset = tensor.storage_offset(),
                    .dtype = tensor.scalar_type()};
  if (storage == nullptr) {
    place.constant = as_number(tensor, tensor.detach().clone());
  } else {
    place.storage = storage->number();
  }
  return place;
}

RecordedOperator record_of(const c10::OperatorHandle& operation, const torch::jit::Stack& arguments) {
  RecordedOperator recorded{.operation = operation, .draws = draws_numbers(operation)};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = writes(operation, i);
    recorded.arguments.push_back(with_tensors(arguments[i], [&](const torch::Tensor& tensor) {
      recorded.taken.push_back(place_of(tensor));
      const DeferredStorage* storage = DeferredStorage::of(tensor);
      if (storage == nullptr) {
        return as_number(tensor,
                         torch::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(torch::kMeta)));
      }
      const bool replaces = i == 0 && replaces_first(operation) && covers_storage(tensor);
      if (written) recorded.writes.push_back(storage->number());
      (replaces ? recorded.replaces : recorded.reads).push_back(storage->number());
      return interpose::meta_of(tensor);
    }));
    if (arguments[i].isGenerator()) recorded.arguments.back() = c10::IValue();  // the default one
  }
  return recorded;
}

}  // namespace fsdp::deferred
