// The product of a column-parallel layer in autograd's graph.
#pragma once

#include <torch/types.h>

#include "api/tensor_parallel/feature_blocks.h"

namespace fsdp {

struct ColumnProductCall {
  ColumnDivision division;
  World axis;
  bool sequence_parallel = false;
};

// input [..., in] @ weight [rows, in]^T + bias [rows], or undefined: [..., features of the division].
torch::Tensor column_product(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                             const ColumnProductCall& call);

}  // namespace fsdp
