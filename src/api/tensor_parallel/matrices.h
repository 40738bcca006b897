// Matrices of parts. The bits of a product may depend on the strides and the alignment of its matrices. So each part
// has a matrix of its own, contiguous and aligned, as if it were the only one.
#pragma once

#include <torch/types.h>

namespace fsdp {

// True for such a matrix.
bool is_own_matrix(const torch::Tensor& tensor);
// The tensor itself if it is one; otherwise a copy.
torch::Tensor own_matrix(const torch::Tensor& tensor);
// [..., columns] as a matrix of all rows, as above.
torch::Tensor own_rows(const torch::Tensor& tensor);

// left @ right, in a part of a matrix.
void write_product(const torch::Tensor& to, const torch::Tensor& left, const torch::Tensor& right);

// Where a weight's gradient is to be written: where a sharded one is reduced if possible, and otherwise in new memory.
torch::Tensor place_of_gradient(const torch::Tensor& weight);

// As an operator that needs equal dtypes: the input, in the dtype of a sharded weight's unit with mixed precision.
torch::Tensor cast_to_unit(const torch::Tensor& input, const torch::Tensor& weight);

}  // namespace fsdp
