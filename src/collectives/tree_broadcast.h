// One rank's tensor on every rank, along a binomial tree: each rank that has the tensor sends it on.
//
// A rank sends to its children one after the other, and the child with the most ranks below it comes first. So n ranks
// have the tensor after ceil(log2 n) times the time of one send, also if a rank's link carries no more than one send.
// Networks accept a few MB before they arrive, so the sends of a long tensor wait for the child's answer.
#pragma once

#include <torch/types.h>

#include <cstddef>

#include "collectives/transport.h"

namespace fsdp::collectives {

// A contiguous CPU tensor, of as many bytes on every rank.
void broadcast_in_a_tree(Transport& transport, const torch::Tensor& tensor, int source);

// A rank sends a tensor of at most so many bytes to all of its children at once: the answers would take longer.
inline constexpr size_t kMostWithoutAnswers = 256 << 10;

}  // namespace fsdp::collectives
