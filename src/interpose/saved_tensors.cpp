#include "interpose/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include "base/error.h"
#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

thread_local const SavedTensorsScope* innermost = nullptr;
thread_local SavedTensorKeeper* watcher = nullptr;

}  // namespace

class SavedTensorEngine final : public torch::autograd::Engine {
 public:
  static Engine& get() {
    static SavedTensorEngine engine;
    return engine;
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    SavedTensorKeeper* keeper = asked_now();
    return keeper != nullptr ? keeper->hooks() : nullptr;
  }

  static SavedTensorKeeper* asked_now() { return innermost != nullptr ? innermost->keeper_ : watcher; }
};

namespace {

// Once per process. Another engine than LibTorch's own is Python's: that one stays.
bool engine_is_ours() {
  static const bool ours = [] {
    using torch::autograd::Engine;
    if (&Engine::get_default_engine() != &Engine::get_base_engine()) return false;
    torch::autograd::set_default_engine_stub(SavedTensorEngine::get);
    return true;
  }();
  return ours;
}

}  // namespace

void KeptTensor::refuse_modified() const {
  TORCH_CHECK(
      false, "one of the variables needed for gradient computation has been modified by an inplace operation: [",
      tensor_.toString(), " ", tensor_.sizes(), "] is at version ", tensor_._version(), "; expected version ", version_,
      " instead. Call the operator that is not in place (add instead of add_), or the one in place on a "
      "clone().");
}

void ActivationHooks::call_pack_hook(const torch::Tensor& tensor) {
  if (tensor.key_set().has(kKey)) {
    parameter_ = KeptTensor(tensor);
  } else {
    pack(tensor);
  }
}

SavedTensorsScope::SavedTensorsScope(SavedTensorKeeper* keeper) : keeper_(keeper), outer_(innermost) {
  FSDP_CHECK(engine_is_ours(),
             "tensors that autograd saves cannot be kept elsewhere: found another engine of autograd than LibTorch's "
             "own. In a process with Python use torch.autograd.graph.saved_tensors_hooks.");
  innermost = this;
}

SavedTensorsScope::~SavedTensorsScope() { innermost = outer_; }

bool watch_saved_tensors(SavedTensorKeeper* keeper) {
  watcher = keeper;
  return engine_is_ours();
}

SavedTensorKeeper* saved_tensor_keeper() { return SavedTensorEngine::asked_now(); }

}  // namespace fsdp::interpose
