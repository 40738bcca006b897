#include "interpose/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include "base/error.h"
#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

using torch::autograd::Engine;

thread_local const SavedTensorsScope* innermost = nullptr;
thread_local std::shared_ptr<SavedTensorKeeper> watcher;

}  // namespace

SavedTensorKeeper* saved_tensor_keeper() { return innermost != nullptr ? innermost->keeper_ : watcher.get(); }

namespace {

class SavedTensorEngine final : public Engine {
 public:
  static Engine& get() {
    static SavedTensorEngine engine;
    return engine;
  }
  SavedTensorHooks get_default_saved_variable_hooks() override {
    SavedTensorKeeper* keeper = saved_tensor_keeper();
    return keeper != nullptr ? keeper->hooks() : nullptr;
  }
};

}  // namespace

// Another engine than LibTorch's own is Python's: that one stays.
bool install_saved_tensor_engine() {
  static const bool ours = [] {
    if (&Engine::get_default_engine() != &Engine::get_base_engine()) return false;
    torch::autograd::set_default_engine_stub(SavedTensorEngine::get);
    return true;
  }();
  return ours;
}

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
  FSDP_CHECK(install_saved_tensor_engine(),
             "tensors that autograd saves cannot be kept elsewhere: found another engine of autograd than LibTorch's "
             "own. In a process with Python use torch.autograd.graph.saved_tensors_hooks.");
  innermost = this;
}

SavedTensorsScope::~SavedTensorsScope() { innermost = outer_; }

void watch_saved_tensors(const std::shared_ptr<SavedTensorKeeper>& keeper) {
  if (watcher != keeper) watcher = keeper;
}

}  // namespace fsdp::interpose
