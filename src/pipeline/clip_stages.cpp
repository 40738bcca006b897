#include "pipeline/clip_stages.h"

#include <algorithm>

#include "base/error.h"
#include "optim/norm.h"

namespace fsdp::pipeline {

using optim::NormSum;

double clip_plain_stages(World& axis, const torch::nn::Module& stage, const TiedGradients& ties, double max_norm,
                         double norm_type) {
  FSDP_CHECK(norm_type > 0, "clip_grad_norm_: found norm_type {}, expected a positive number or infinity", norm_type);
  FSDP_CHECK(max_norm >= 0, "clip_grad_norm_: found max_norm {}, expected 0 or more", max_norm);
  const torch::NoGradGuard no_grad;
  NormSum own(norm_type);
  for (const torch::Tensor& parameter : stage.parameters()) {
    if (!parameter.grad().defined() || ties.is_copy(parameter)) continue;
    const torch::Tensor values = parameter.grad().to(torch::kCPU, torch::kFloat32).contiguous();
    own.add({values.const_data_ptr<float>(), static_cast<size_t>(values.numel())});
  }
  const NormSum::Words words = own.words();
  torch::Tensor message = torch::empty({NormSum::kWords}, torch::kInt64);
  std::ranges::copy(words, message.mutable_data_ptr<int64_t>());
  NormSum all(norm_type);
  for (const torch::Tensor& part : axis.all_gather(message)) {
    NormSum::Words values;
    std::copy_n(part.const_data_ptr<int64_t>(), values.size(), values.begin());
    all.add(values);
  }
  constexpr double kNotZero = 1e-6;  // as torch.nn.utils.clip_grad_norm_
  const double norm = all.norm(), factor = max_norm / (norm + kNotZero);
  if (factor >= 1.0) return norm;
  for (const torch::Tensor& parameter : stage.parameters()) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(static_cast<float>(factor));
  }
  return norm;
}

}  // namespace fsdp::pipeline
