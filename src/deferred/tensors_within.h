// The tensors within an operator's boxed arguments and results.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <utility>

namespace fsdp::deferred {

// The value with `replace(tensor)` in place of every tensor in it that is defined: itself, or the elements of a list.
template <typename Replace>
c10::IValue with_tensors(const c10::IValue& value, Replace&& replace) {
  const auto replaced = [&](const c10::IValue& one) {
    return one.isTensor() && one.toTensor().defined() ? c10::IValue(replace(one.toTensor())) : one;
  };
  if (!value.isList()) return replaced(value);
  const c10::impl::GenericList list = value.toList();
  c10::impl::GenericList copy(list.elementType());
  copy.reserve(list.size());
  for (const c10::IValue& element : value.toListRef()) copy.push_back(replaced(element));
  return copy;
}

template <typename Look>
void for_each_tensor(const c10::IValue& value, Look&& look) {
  with_tensors(value, [&](const torch::Tensor& tensor) {
    look(tensor);
    return tensor;
  });
}

}  // namespace fsdp::deferred
