// The order in which a forward first uses a module's parameters, as LibTorch's own observer of operators sees it.
#include <ATen/record_function.h>

#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "fsdp/options.h"

namespace fsdp {

namespace {

// Notes parameters among the arguments of every operator that this thread begins while it lives.
class UseRecorder {
 public:
  explicit UseRecorder(const torch::nn::Module& module) : outer_(std::exchange(recording_, this)) {
    for (const auto& parameter : module.named_parameters())
      names_.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&begin_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~UseRecorder() {
    at::removeCallback(handle_);
    recording_ = outer_;
  }
  UseRecorder(const UseRecorder&) = delete;
  UseRecorder& operator=(const UseRecorder&) = delete;

  std::vector<std::string> order() && { return std::move(order_); }

 private:
  static std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& call) {
    for (const c10::IValue& argument : call.inputs()) recording_->add(argument);
    return nullptr;
  }

  void add(const c10::IValue& argument) {
    if (argument.isTensor()) {
      add(argument.toTensor());
    } else if (argument.isList()) {
      for (const c10::IValue& element : argument.toListRef()) add(element);
    }
  }
  void add(const torch::Tensor& tensor) {
    const auto unused = names_.find(tensor.unsafeGetTensorImpl());
    if (unused == names_.end()) return;
    order_.push_back(std::move(unused->second));
    names_.erase(unused);
  }

  static thread_local UseRecorder* recording_;
  UseRecorder* outer_;
  at::CallbackHandle handle_;
  std::unordered_map<const at::TensorImpl*, std::string> names_;  // of parameters that were not used yet
  std::vector<std::string> order_;
};

thread_local UseRecorder* UseRecorder::recording_ = nullptr;

}  // namespace

std::vector<std::string> order_of_use(const torch::nn::Module& module, const std::function<void()>& forward) {
  FSDP_CHECK(forward != nullptr, "order_of_use: found an empty function, expected one that runs a forward");
  UseRecorder recorder(module);
  forward();
  return std::move(recorder).order();
}

}  // namespace fsdp
