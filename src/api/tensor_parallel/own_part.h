// Parameters of divided layers: this rank's part of a whole one, and the checks that layers share.
#pragma once

#include <torch/types.h>

#include <vector>

#include "fsdp/tensor_parallel.h"
#include "layout/unit_layout.h"

namespace fsdp {

// The ranges of a whole parameter along `dim`, one after the other, in memory of their own.
torch::Tensor own_part(const torch::Tensor& whole, int64_t dim, const std::vector<layout::Range>& ranges);

ParameterDivision division_of(const char* parameter, std::vector<int64_t> shape, int64_t dim,
                              const std::vector<layout::Range>& ranges);

// Throws Error unless `input` is [..., columns] in the dtype of the weight, and with sequence_parallel [batch,
// sequence, columns].
void check_input(const char* caller, const torch::Tensor& input, int64_t columns, const torch::Tensor& weight,
                 const TensorParallelOptions& parallel);

// Throws Error for options of ColumnParallelLinear alone.
void check_not_column(const char* caller, const TensorParallelOptions& parallel);

}  // namespace fsdp
