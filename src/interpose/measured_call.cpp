#include "interpose/measured_call.h"

#include <algorithm>
#include <utility>

#include "interpose/computation.h"

namespace fsdp::interpose {

namespace {

void add_mark(const torch::Tensor& tensor, StorageMarks& marks) {
  if (tensor.defined() && tensor.has_storage()) marks.emplace_back(tensor);
}

}  // namespace

MeasuredCall::MeasuredCall(std::shared_ptr<MeasuredBlocks> blocks, size_t block,
                           const std::vector<torch::Tensor>& inputs, Choice choice)
    : ResultList(std::move(choice)), blocks_(std::move(blocks)), block_(block) {
  StorageMarks marks;
  for (const torch::Tensor& input : inputs) add_mark(input, marks);
  blocks_->begins(block_, this, marks);
}

void MeasuredCall::saves(const torch::Tensor& tensor) { add_mark(tensor, saved_); }

void MeasuredCall::ends(bool stop_early) {
  CallFacts facts{.saved = std::move(saved_),
                  .products = {},
                  .seconds = stop_early ? seconds_to_last_saved_ : seconds_,
                  .product_seconds = 0};
  for (const Entry& entry : entries_) {
    facts.products.insert(facts.products.end(), entry.marks.begin(), entry.marks.end());
    if (!entry.marks.empty()) facts.product_seconds += entry.seconds;
  }
  blocks_->ends(block_, this, facts);
}

void MeasuredCall::compute(Computation& computation) {
  last_seconds_ = computation.timed_compute();
  seconds_ += last_seconds_;
}

void MeasuredCall::append(const std::vector<c10::IValue>& results) {
  Entry& entry = entries_.emplace_back(Entry{.marks = {}, .seconds = last_seconds_});
  for (const c10::IValue& result : results) {
    if (result.isTensor()) add_mark(result.toTensor(), entry.marks);
  }
}

void MeasuredCall::count_saved(size_t tensors) {
  ResultList::count_saved(tensors);
  if (tensors <= most_saved_) return;
  most_saved_ = tensors;
  seconds_to_last_saved_ = seconds_;
}

bool MeasuredCall::holds(size_t number, const torch::Tensor& tensor) const {
  if (number >= entries_.size() || !tensor.defined() || !tensor.has_storage()) return false;
  return std::ranges::any_of(entries_[number].marks, [&](const StorageMark& mark) {
    return mark.address() == tensor.storage().unsafeGetStorageImpl();
  });
}

void MeasuredCall::close() {
  if (std::exchange(is_open_, false)) blocks_->closes(block_, this);
}

}  // namespace fsdp::interpose
