#include "interpose/kept_inputs.h"

#include <torch/csrc/autograd/function.h>

#include "base/error.h"

namespace fsdp::interpose {

KeptInputs::KeptInputs(const std::vector<torch::Tensor>& inputs) {
  saved_.reserve(inputs.size());
  for (const torch::Tensor& input : inputs) {
    saved_.emplace_back(input, /*is_output=*/false);
    versions_.push_back(input.defined() ? static_cast<int64_t>(input._version()) : 0);
  }
}

std::vector<torch::Tensor> KeptInputs::again() const {
  std::vector<torch::Tensor> inputs;
  for (size_t i = 0; i < saved_.size(); ++i) {
    check_unchanged(i);
    const torch::Tensor input = saved_[i].unpack();
    const bool whole = !input.defined() || input.is_leaf();
    inputs.push_back(whole ? input : input.detach().requires_grad_(input.requires_grad()));
  }
  return inputs;
}

void KeptInputs::check_unchanged(size_t input) const {
  const std::optional<torch::Tensor> tensor = saved_[input].get_raw_data();
  if (!tensor || !tensor->defined()) return;
  const auto version = static_cast<int64_t>(tensor->_version());
  FSDP_CHECK(version == versions_[input],
             "activation_checkpoint: tensor {} among the inputs, {} of shape [{}], was changed in place after the "
             "forward began, and the backward runs the function again with it: found version {}, expected {}. Call the "
             "operator that is not in place (add instead of add_), or pass a clone().",
             input, toString(tensor->scalar_type()), fmt::join(tensor->sizes(), ", "), version, versions_[input]);
}

}  // namespace fsdp::interpose
