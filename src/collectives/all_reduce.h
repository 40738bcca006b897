// Sums of whole tensors over the ranks, in rank order.
//
// Contiguous CPU tensors of the same shape and dtype on every rank. 16-bit floating types are summed in fp32 and
// rounded once; the others as torch's add sums them (bool: or). Every rank ends with the same bits.
#pragma once

#include <torch/types.h>

#include <vector>

#include "collectives/transport.h"

namespace fsdp::collectives {

// The ranks' tensors, in their order.
torch::Tensor sum_in_order(const std::vector<torch::Tensor>& parts);

// Sums a long tensor, flat, in place: each rank sums its chunk, within bounded extra memory.
void all_reduce_by_chunks(Transport& transport, const torch::Tensor& flat);

// Tensors of at most so many bytes travel whole instead.
inline constexpr int64_t kSmallBytes = 64 << 10;

}  // namespace fsdp::collectives
