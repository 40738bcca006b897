// Where mixed precision is on, parameters and activations of different dtypes meet: a full unit is bf16, say, and the
// model's input fp32. Operators that need equal dtypes get theirs cast, as FSDP's users expect; all others promote as
// always. The casts lie above autograd, so gradients come back in the dtype of the tensor that was cast.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "interpose/unit_storage.h"

namespace fsdp::interpose {

// The dtype in which an operator gets its floating arguments.
enum class ArgumentDtypes : uint8_t {
  AsTheyAre,    // it promotes
  OfParameter,  // it fails, or computes in the wrong dtype, unless they agree
  Float32,      // so, too, and it has no kernel for 16 bits
};

// By the operator's name ("aten::linear", "aten::index_put_").
ArgumentDtypes argument_dtypes(const std::string& operation);

// An operator's argument, by its schema.
struct ArgumentTraits {
  bool written = false;
  bool statistics = false;  // written in training, though the schema does not say so: running_mean, running_var
  bool any_dtype = false;   // needs not agree with the others: attn_mask
};

ArgumentTraits argument_traits(const c10::Argument& argument);

// The tensor in that dtype; one that is not floating, or has that dtype, as it is.
at::Tensor cast_argument(const at::Tensor& tensor, torch::ScalarType dtype);
// Casts the arguments of an operator with this rule on parameters of `unit`. One that writes an activation computes in
// the dtype of that, which is not cast. Throws Error where the dtype of statistics is not the unit's.
void cast_arguments(torch::jit::Stack& stack, const std::vector<ArgumentTraits>& arguments, ArgumentDtypes rule,
                    const UnitStorage& unit);

}  // namespace fsdp::interpose
