#include "engine/gradient_factors.h"

#include <ATen/ops/_foreach_mul.h>

namespace fsdp::engine {

std::vector<torch::Tensor> GradientFactors::times(std::vector<torch::Tensor> gradients) const {
  if (gradients.empty()) return gradients;
  bool in_place = product_ == Product::InPlace;
  for (const GradientFactor& each : factors_) {
    std::visit(
        [&](const auto& factor) {
          in_place ? at::_foreach_mul_(gradients, factor) : void(gradients = at::_foreach_mul(gradients, factor));
        },
        each);
    in_place = true;
  }
  return gradients;
}

}  // namespace fsdp::engine
