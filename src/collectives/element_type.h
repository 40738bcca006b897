// The element types of gradients on the wire.
#pragma once

#include <torch/types.h>

#include "base/error.h"
#include "collectives/ordered_sum.h"

namespace fsdp::collectives {

inline ElementType element_type_of(torch::ScalarType dtype) {
  FSDP_INVARIANT(dtype == torch::kFloat32 || dtype == torch::kBFloat16 || dtype == torch::kHalf,
                 "gradients of {} are not summed", toString(dtype));
  return dtype == torch::kFloat32    ? ElementType::Float32
         : dtype == torch::kBFloat16 ? ElementType::BFloat16
                                     : ElementType::Float16;
}

}  // namespace fsdp::collectives
