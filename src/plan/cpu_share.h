// A rank's share of a CPU host in numbers: what operators take while so many ranks compute beside each other. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>

namespace fsdp::plan {

// A rate by size, measured at some sizes.
using RatesBySize = std::map<double, double>;

// Each rate is that of one rank, while `ranks` ranks of the host do the same at once. All are measured
// (fsdp-calibrate).
struct CpuShare {
  int64_t ranks = 1;    // of the host
  int64_t threads = 1;  // of each
  int64_t element = 4;  // bytes of an activation: 4 for fp32, 2 for bf16

  RatesBySize products;            // operations per second of a linear layer's forward, by the cube root of m * n * k
  RatesBySize backward_products;   // and of its two gradients
  RatesBySize passes;              // elements per second of an addition of two tensors, by elements
  RatesBySize attention;           // operations per second of attention's forward, by the length of a sequence
  RatesBySize backward_attention;  // and of its backward
  double activation_rate = 0, backward_activation_rate = 0;  // elements per second of an activation function
  double norm_rate = 0, backward_norm_rate = 0;              // and of a normalisation
  double logit_rate = 0;   // logits per second of the loss, beside the head's products
  double update_rate = 0;  // parameters per second of the optimizer
  double operator_seconds = 0, backward_operator_seconds = 0;  // for each operator, beside its work

  // Measured steps of a small model, divided by the same steps of these operators, by the model's width.
  RatesBySize step_factors;
};

// Between two measured sizes the logarithm is interpolated; beyond them the nearest counts. `rates` is not empty.
double rate_at(const RatesBySize& rates, double size);

// The share of a host with so many ranks: of all with elements of this size, the one with the fewest ranks that has at
// least as many, or the one with the most. Null if there is none of this element.
const CpuShare* share_of(std::span<const CpuShare> shares, int64_t ranks, int64_t element);

}  // namespace fsdp::plan
