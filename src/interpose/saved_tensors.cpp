#include "interpose/saved_tensors.h"

#include "interpose/hooks_engine.h"
#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

thread_local const SavedTensorsScope* innermost = nullptr;
thread_local std::shared_ptr<SavedTensorKeeper> watcher;

}  // namespace

SavedTensorKeeper* saved_tensor_keeper() { return innermost != nullptr ? innermost->keeper_ : watcher.get(); }

namespace {

// Hooks that a user of Python has pushed come before a count, and after a scope of this library.
SavedTensorHooks hooks_for_saved_tensor(torch::autograd::Engine& others) {
  if (innermost == nullptr) {
    if (SavedTensorHooks pushed = others.get_default_saved_variable_hooks()) return pushed;
  }
  SavedTensorKeeper* keeper = saved_tensor_keeper();
  return keeper != nullptr ? keeper->hooks() : nullptr;
}

}  // namespace

void install_saved_tensor_engine() { HooksEngine::install(hooks_for_saved_tensor); }

void KeptTensor::refuse_modified() const {
  TORCH_CHECK(
      false, "one of the variables needed for gradient computation has been modified by an inplace operation: [",
      tensor_.toString(), " ", tensor_.sizes(), "] is at version ", tensor_._version(), "; expected version ", version_,
      " instead. Call the operator that is not in place (add instead of add_), or the one in place on a "
      "clone().");
}

WatchedTensor::WatchedTensor(const torch::Tensor& tensor) : watched_(watcher ? watcher->hooks_in_memory() : nullptr) {
  if (watched_) {
    watched_->call_pack_hook(tensor);
  } else {
    plain_ = KeptTensor(tensor);
  }
}

void ActivationHooks::call_pack_hook(const torch::Tensor& tensor) {
  if (tensor.key_set().has(kKey)) {
    parameter_ = KeptTensor(tensor);
  } else {
    pack(tensor);
  }
}

SavedTensorsScope::SavedTensorsScope(SavedTensorKeeper* keeper) : keeper_(keeper), outer_(innermost) {
  install_saved_tensor_engine();
  innermost = this;
}

SavedTensorsScope::~SavedTensorsScope() { innermost = outer_; }

void watch_saved_tensors(const std::shared_ptr<SavedTensorKeeper>& keeper) {
  if (watcher != keeper) watcher = keeper;
}

}  // namespace fsdp::interpose
