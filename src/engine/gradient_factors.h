// The factors by which gradients are multiplied before the norm or an optimizer uses them, in this order: one over the
// number of ranks, and the factor of clipping.
#pragma once

#include <torch/types.h>

#include <utility>
#include <variant>
#include <vector>

namespace fsdp::engine {

// A number, or a tensor [] of float32 on the gradients' device, for which the host has not waited.
using GradientFactor = std::variant<float, torch::Tensor>;

class GradientFactors {
 public:
  enum class Product {
    InPlace,
    Apart,  // the gradients stay as they are: they lie in files, and what is not written there needs no disk
  };

  explicit GradientFactors(std::vector<GradientFactor> factors = {}, Product product = Product::InPlace)
      : factors_(std::move(factors)), product_(product) {}

  // The gradients [any] times the factors; the gradients themselves where these are none, or multiplied in place.
  std::vector<torch::Tensor> times(std::vector<torch::Tensor> gradients) const;

 private:
  std::vector<GradientFactor> factors_;
  Product product_;
};

}  // namespace fsdp::engine
