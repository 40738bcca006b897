#include "optim/clip_plain.h"

#include "optim/counted_elements.h"
#include "optim/norm_message.h"

namespace fsdp::optim {

namespace {

std::vector<layout::Range> elsewhere(const std::vector<std::shared_ptr<engine::OtherParts>>& parts,
                                     const torch::Tensor& parameter) {
  std::vector<layout::Range> all;
  for (const auto& one : parts) {
    const std::vector<layout::Range> ranges = one->counted_elsewhere(parameter);
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  return all;
}

}  // namespace

double clip_plain_gradients(const std::vector<torch::Tensor>& parameters,
                            const std::vector<std::shared_ptr<engine::OtherParts>>& parts, double max_norm,
                            double norm_type) {
  check_clip(max_norm, norm_type);
  const torch::NoGradGuard no_grad;
  NormSum sum(norm_type);
  for (const torch::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const torch::Tensor values = parameter.grad().to(torch::kCPU, torch::kFloat32).contiguous().view({-1});
    const torch::Tensor counted = without(values, 0, elsewhere(parts, parameter));
    sum.add({counted.const_data_ptr<float>(), static_cast<size_t>(counted.numel())});
  }
  for (const auto& one : parts) sum = sum_of(one->all_gather(as_tensor(sum.words())), norm_type);
  const double norm = sum.norm(), factor = max_norm / (norm + kNotZero);
  if (factor >= 1.0) return norm;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(static_cast<float>(factor));
  }
  return norm;
}

}  // namespace fsdp::optim
