// Combines long tensors of the ranks, in rank order (reduction.h).
//
// Contiguous CPU tensors of the same shape and dtype on every rank. Every rank ends with the same bits.
#pragma once

#include <torch/types.h>

#include "collectives/transport.h"
#include "fsdp/reduce_op.h"

namespace fsdp::collectives {

// A long tensor, flat, in place: each rank combines its chunk, within bounded extra memory.
void all_reduce_by_chunks(Transport& transport, const torch::Tensor& flat, ReduceOp op);

// Tensors of at most so many bytes travel whole instead.
inline constexpr int64_t kSmallBytes = 64 << 10;

}  // namespace fsdp::collectives
