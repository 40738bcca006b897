// Sums of whole tensors over the ranks, in rank order, over point-to-point messages.
//
// Contiguous CPU tensors of the same shape and dtype on every rank. 16-bit floating types are summed in fp32 and
// rounded once; the others as torch's add sums them (bool: or). Every rank ends with the same bits.
#pragma once

#include <torch/types.h>

#include <vector>

#include "collectives/wire.h"

namespace fsdp::collectives {

// The ranks' tensors, in their order.
torch::Tensor sum_in_order(const std::vector<torch::Tensor>& parts);

// Every rank's tensor, in rank order; the own one is a copy.
std::vector<torch::Tensor> all_gather_parts(Wire& wire, const torch::Tensor& tensor);

// In place. Small tensors travel whole; of large ones each rank sums its chunk, within bounded extra memory.
void all_reduce_in_order(Wire& wire, torch::Tensor& tensor);

// The size at which the second way starts, for tests.
inline constexpr int64_t kSmallBytes = 64 << 10;
// The elements that each rank sums at once.
inline constexpr int64_t kChunkBytes = 1 << 20;

}  // namespace fsdp::collectives
