#include "device/fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <set>
#include <string>

#include "device/accesses.h"
#include "device/generator.h"
#include "device/host_tensor.h"
#include "device/operator_in_flight.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

using c10::IValue;

// On CUDA too their shape is found by a wait for the device.
const std::set<std::string> kValueShaped{"aten::nonzero",
                                         "aten::masked_select",
                                         "aten::_unique",
                                         "aten::_unique2",
                                         "aten::unique_dim",
                                         "aten::unique_consecutive",
                                         "aten::unique_dim_consecutive",
                                         "aten::repeat_interleave",
                                         "aten::bincount"};
// They take tensors of the CPU beside those of the device: numbers of elements, indices.
const std::set<std::string> kMixed{"aten::_pack_padded_sequence",
                                   "aten::_pad_packed_sequence",
                                   "aten::index",
                                   "aten::index_put_",
                                   "aten::_index_put_impl_",
                                   "aten::_ctc_loss",
                                   "aten::_index_put_impl"};
// Arguments that are written although the schema does not say so: running mean and variance.
const std::set<std::string> kBatchNorms{"aten::native_batch_norm", "aten::native_batch_norm.out"};

class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& operation, torch::jit::Stack* stack)
      : operation_(operation), schema_(operation.schema()), stack_(*stack), name_(schema_.name()) {}

  void run() {
    const OperatorInFlight in_flight(name_.c_str());
    find_device();
    replace_arguments();
    {
      at::AutoDispatchBelowADInplaceOrView below;
      operation_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    }
    replace_results();
    tensors_.take_over_changes();
    const c10::Stream stream = current_stream(device_.index());
    const bool is_view = tensors_.writes.empty() && returns_tensors_;
    if (!is_view) note_launch(stream, operation_name(), std::move(tensors_.reads), std::move(tensors_.writes));
    if (returns_values_ || kValueShaped.contains(name_)) note_host_wait(operation_name(), stream);
  }

 private:
  // Of schemas, which live as long as the process.
  const char* operation_name() const { return schema_.name().c_str() + (name_.starts_with("aten::") ? 6 : 0); }

  size_t first_argument() const { return stack_.size() - schema_.arguments().size(); }

  void find_device() {
    device_ = {c10::kCUDA, current_device()};
    bool found = false;
    visit_tensors([&](const at::Tensor& tensor) {
      if (!found && is_on_device(tensor)) device_ = tensor.device();
      found = found || is_on_device(tensor);
    });
    for (size_t i = first_argument(); !found && i < stack_.size(); ++i)
      if (stack_[i].isDevice() && stack_[i].toDevice().has_index()) device_ = stack_[i].toDevice();
    if (found && !kMixed.contains(name_)) visit_tensors([&](const at::Tensor& tensor) { check_device(tensor); });
  }

  void check_device(const at::Tensor& tensor) const {
    // CUDA's fused kernels take addresses of all tensors; others take the value of a tensor without dimensions.
    const bool takes_addresses = name_.starts_with("aten::_fused_") || name_.starts_with("aten::_amp_");
    const bool is_number = tensor.is_cpu() && tensor.dim() == 0 && !takes_addresses;
    TORCH_CHECK(is_number || tensor.device() == device_, name_,
                ": Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
                tensor.device(), " (the tests' device)");
  }

  template <typename Visit>
  void visit_tensors(Visit&& visit) const {
    for (size_t i = first_argument(); i < stack_.size(); ++i) {
      if (stack_[i].isTensor() && stack_[i].toTensor().defined()) visit(stack_[i].toTensor());
      if (!stack_[i].isList()) continue;
      for (const IValue& one : stack_[i].toListRef())
        if (one.isTensor() && one.toTensor().defined()) visit(one.toTensor());
    }
  }

  void replace_arguments() {
    const size_t first = first_argument();
    for (size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      const bool written = (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
                           (kBatchNorms.contains(name_) && argument.name().starts_with("running_"));
      IValue& value = stack_[first + i];
      if (argument.name() == "pin_memory") value = IValue();
      replace_argument(value, written);
      draws_ = draws_ || argument.name() == "generator";
      if (argument.name() == "generator" && value.isNone()) value = on_cpu(default_generator(device_.index()));
    }
  }

  void replace_argument(IValue& value, bool written) {
    if (value.isTensor()) {
      value = tensors_.of(value.toTensor(), written);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensors_.of(tensor, written));
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(tensors_.of(*tensor, written)) : std::nullopt);
      value = list;
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      value = c10::Device(c10::kCPU);
    } else if (value.isGenerator()) {
      value = on_cpu(value.toGenerator());
    }
  }

  void replace_results() {
    const size_t results = schema_.returns().size(), first = stack_.size() - results;
    for (size_t i = 0; i < results; ++i) {
      IValue& value = stack_[first + i];
      const bool stays = name_ == "aten::_pack_padded_sequence" && i == 1;  // the batch sizes
      if (stays) continue;
      replace_result(value);
    }
    if (results == 0) returns_tensors_ = true;
  }

  void replace_result(IValue& value) {
    if (value.isTensor()) {
      returns_tensors_ = true;
      value = tensors_.on_device(value.toTensor(), device_);
    } else if (value.isTensorList()) {
      returns_tensors_ = true;
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensors_.on_device(tensor, device_));
      value = list;
    } else if (value.isBool() || value.isScalar()) {
      returns_values_ = true;
    }
  }

  const c10::OperatorHandle& operation_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  const std::string& name_;
  c10::Device device_{c10::kCUDA, 0};
  HostTensors tensors_;
  bool returns_tensors_ = false, returns_values_ = false, draws_ = false;
};

bool has_kernel(const c10::OperatorHandle& operation, c10::DispatchKey key) {
  return operation.hasKernelForDispatchKey(key);
}

// LibTorch has kernels for all devices, made of calls of other operators, beside those of the CPU for these operators.
// The CPU's are taken, for their bits, and those of lists of tensors, which are one kernel on CUDA.
bool is_whole(const c10::OperatorHandle& operation) {
  static const std::set<std::string> ours{"aten::copy_", "aten::_copy_from", "aten::empty.memory_format",
                                          "aten::native_layer_norm"};
  const std::string& name = operation.operator_name().name;
  if (name.starts_with("aten::_foreach_") || name == "aten::convolution" || name == "aten::convolution_backward")
    return true;
  return has_kernel(operation, c10::DispatchKey::CPU) &&
         has_kernel(operation, c10::DispatchKey::CompositeExplicitAutograd) && !ours.contains(name);
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

void register_whole_operators(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto operation = dispatcher.findSchema(name);
    if (operation && is_whole(*operation))
      library.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_device>());
  }
}

TORCH_LIBRARY_IMPL(_, CUDA, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_device>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, library) { register_whole_operators(library); }

}  // namespace

void run_on_device(const c10::OperatorHandle& operation, torch::jit::Stack* stack) { CpuCall(operation, stack).run(); }

}  // namespace fsdp::testing::device
