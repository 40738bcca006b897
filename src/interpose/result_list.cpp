#include "interpose/result_list.h"

#include "interpose/computation.h"

namespace fsdp::interpose {

void ResultList::compute(Computation& computation) { computation.compute(); }

void ResultList::add(const std::vector<c10::IValue>& results) {
  saved_at_.push_back(saved_);
  append(results);
}

void ResultList::forget_behind(size_t tensors) {
  for (size_t number = 0; number < size(); ++number) {
    if (saved_at_[number] >= tensors) drop(number);
  }
}

void ResultList::forget(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  for (size_t number = 0; number < size(); ++number) {
    if (holds(number, tensor)) drop(number);
  }
}

std::vector<c10::IValue> ResultList::at(size_t) const { return {}; }

}  // namespace fsdp::interpose
