// The product of a row-parallel layer in autograd's graph.
#pragma once

#include <torch/types.h>

#include "api/tensor_parallel/parts.h"

namespace fsdp {

struct RowProductCall {
  AxisParts parts;
  World axis;
  bool sequence_parallel = false;
};

// The sum over the parts of input [..., columns] @ weight [out, columns]^T, then + bias [out], or undefined.
torch::Tensor row_product(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                          const RowProductCall& call);

}  // namespace fsdp
