// Sums of norms in messages between ranks, and the numbers that clipping uses.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "optim/norm.h"

namespace fsdp::optim {

inline constexpr double kNotZero = 1e-6;  // as torch.nn.utils.clip_grad_norm_

inline void check_clip(double max_norm, double norm_type) {
  FSDP_CHECK(norm_type > 0, "clip_grad_norm_: found norm_type {}, expected a positive number or infinity", norm_type);
  FSDP_CHECK(max_norm >= 0, "clip_grad_norm_: found max_norm {}, expected 0 or more", max_norm);
}

inline NormSum::Words on_host(const torch::Tensor& words) {
  const torch::Tensor here = words.cpu();
  NormSum::Words values;
  std::copy_n(here.const_data_ptr<int64_t>(), values.size(), values.begin());
  return values;
}

inline torch::Tensor as_tensor(const NormSum::Words& words) {
  torch::Tensor message = torch::empty({NormSum::kWords}, torch::kInt64);
  std::ranges::copy(words, message.mutable_data_ptr<int64_t>());
  return message;
}

inline NormSum sum_of(const std::vector<torch::Tensor>& messages, double norm_type) {
  NormSum sum(norm_type);
  for (const torch::Tensor& words : messages) sum.add(on_host(words));
  return sum;
}

}  // namespace fsdp::optim
