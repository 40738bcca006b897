#include "engine/gradient_factors.h"

#include <ATen/ops/_foreach_mul.h>

namespace fsdp::engine {

std::vector<torch::Tensor> GradientFactors::times(std::vector<torch::Tensor> gradients) const {
  bool in_place = product_ == Product::InPlace;
  for (float factor : factors_) {
    if (in_place) {
      at::_foreach_mul_(gradients, factor);
    } else {
      gradients = at::_foreach_mul(gradients, factor);
      in_place = true;
    }
  }
  return gradients;
}

}  // namespace fsdp::engine
