#include "interpose/use_recorder.h"

#include "base/error.h"

namespace fsdp::interpose {

namespace {

thread_local UseRecorder* recording = nullptr;  // LibTorch's callbacks are plain functions

}  // namespace

UseRecorder::UseRecorder(const std::vector<torch::Tensor>& tensors) {
  FSDP_CHECK(recording == nullptr, "order_of_use: found another one that runs on this thread. Call it outside of it.");
  for (size_t i = 0; i < tensors.size(); ++i) unused_.emplace(tensors[i].unsafeGetTensorImpl(), i);
  const auto operator_begins = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    for (const c10::IValue& input : function.inputs()) recording->note(input);
    return nullptr;
  };
  recording = this;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(operator_begins).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

UseRecorder::~UseRecorder() {
  at::removeCallback(callback_);
  recording = nullptr;
}

void UseRecorder::note(const c10::IValue& value) {
  if (value.isTensor()) {
    const auto found = unused_.find(value.toTensor().unsafeGetTensorImpl());
    if (found == unused_.end()) return;
    order_.push_back(found->second);
    unused_.erase(found);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) note(element);
  }
}

}  // namespace fsdp::interpose
