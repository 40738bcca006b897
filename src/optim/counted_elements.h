// Elements of gradients that a norm counts on this rank. Other parts of the model count the others: copies of a tied
// parameter, and parameters and heads that several ranks of a tensor axis hold.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/model.h"
#include "layout/unit_layout.h"

namespace fsdp::optim {

// In the order of the parameter's memory. May overlap.
std::vector<layout::Range> counted_elsewhere(const engine::Model& model, const torch::Tensor& parameter);

// `values` are [any] from element `begin` on. Zeros stand in these ranges, so that blocks stay where they are. If a
// range has all, the result is empty; if none has any, it is `values` itself.
torch::Tensor without(const torch::Tensor& values, int64_t begin, const std::vector<layout::Range>& ranges);

}  // namespace fsdp::optim
