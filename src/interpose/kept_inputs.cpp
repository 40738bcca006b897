#include "interpose/kept_inputs.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"
#include "interpose/touches.h"

namespace fsdp::interpose {

KeptInputs::KeptInputs(const std::vector<torch::Tensor>& inputs) {
  for (const torch::Tensor& input : inputs) {
    // A parameter's version goes up when it is used first after a step. That is here.
    if (input.defined()) announce_view(input);
    const c10::VariableVersion version =
        input.defined() ? torch::autograd::impl::version_counter(input) : c10::VariableVersion();
    inputs_.push_back({torch::autograd::SavedVariable(input, /*is_output=*/false), version,
                       input.defined() ? version.current_version() : 0});
  }
}

std::vector<torch::Tensor> KeptInputs::again() const {
  std::vector<torch::Tensor> inputs;
  for (const Input& input : inputs_) {
    const uint32_t version = input.version.enabled() ? input.version.current_version() : 0;
    FSDP_CHECK(
        version == input.expected,
        "activation_checkpoint: tensor {} among the inputs was changed in place after the forward began, and the "
        "backward runs the function again with it: found version {}, expected {}. Call the operator that is not "
        "in place (add instead of add_), or pass a clone().",
        inputs.size(), version, input.expected);
    inputs.push_back(again(input));
  }
  return inputs;
}

torch::Tensor KeptInputs::again(const Input& input) {
  const torch::Tensor tensor = input.saved.unpack();
  if (!tensor.defined() || tensor.is_leaf()) return tensor;
  return tensor.detach().requires_grad_(tensor.requires_grad());
}

}  // namespace fsdp::interpose
