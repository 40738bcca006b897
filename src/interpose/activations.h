// Where mixed precision is on, parameters and activations of different dtypes meet: a full unit is bf16, say, and the
// model's input fp32. Operators that need equal dtypes get their activations in the parameters' dtype, as FSDP's users
// expect; all others promote as always. The casts lie above autograd, so gradients come back in the activations' dtype.
#pragma once

#include <ATen/core/stack.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "interpose/unit_storage.h"

namespace fsdp::interpose {

// Whether the operator ("aten::linear") fails, or computes in the wrong dtype, unless its floating arguments agree.
bool needs_equal_dtypes(const std::string& operation);

// Whether the argument of this name is written in training, so that a cast copy of it would be, and the model's lost.
bool holds_statistics(const std::string& argument);

// The activation in the unit's dtype; a parameter, or a tensor that is not floating or of that dtype, as it is.
at::Tensor cast_activation(const at::Tensor& activation, const UnitStorage& unit);
// `statistics`: which of the operator's arguments hold them; throws Error where their dtype is not the unit's.
void cast_activations(torch::jit::Stack& stack, const std::vector<bool>& statistics, const UnitStorage& unit);

}  // namespace fsdp::interpose
