// The arithmetic of whole tensors that a collective combines, in rank order.
//
// Dense tensors of one shape and dtype, on one device. 16-bit floating types are added in fp32 and rounded once; others
// as LibTorch adds them (bools: or).
#pragma once

#include <torch/types.h>

#include <vector>

#include "fsdp/reduce_op.h"

namespace fsdp::collectives {

const char* name_of(ReduceOp op);

// By rank: `own` in this rank's place, and room for the others' parts.
std::vector<torch::Tensor> parts_around(const torch::Tensor& own, int rank, int size);

// Throws Error if elements of this type cannot be combined so; `call` names the collective: "all_reduce_".
void check_can_reduce(torch::ScalarType dtype, ReduceOp op, const char* call);

// ((parts[0] op parts[1]) op parts[2]) ... in new memory.
torch::Tensor reduce_in_order(const std::vector<torch::Tensor>& parts, ReduceOp op);

// The result goes into `own`, which may be one of the parts. The others may have any value afterwards.
void reduce_in_place(torch::Tensor own, const std::vector<torch::Tensor>& parts, ReduceOp op);

}  // namespace fsdp::collectives
