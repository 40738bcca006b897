// Parts of activations in a divided model. The bits of a part depend on no other part, nor on the number of ranks: each
// is computed in tensors of its own.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "models/division.h"

namespace models {

// The parts of this rank: `count`, from `first` on. A model that is not divided has one.
struct RankParts {
  int first = 0, count = 1;
};
RankParts parts_of(const Division& division);
// The ranks among which the sequence is divided; 1 without sequence_parallel.
int sequence_ranks(const Division& division);

// Pieces of these sizes along a dimension. Each is contiguous and, unless it is the whole, has memory of its own. So
// has its gradient.
std::vector<torch::Tensor> split(const torch::Tensor& whole, int64_t dim, const std::vector<int64_t>& sizes);
// The inverse.
torch::Tensor join(const std::vector<torch::Tensor>& pieces, int64_t dim);
// Tokens [batch, length], with zeros behind them until the parts divide the length, if the sequence is divided.
torch::Tensor padded_sequence(const torch::Tensor& tokens, const Division& division);
// Equal pieces, one for each part of this rank.
std::vector<torch::Tensor> split_evenly(const torch::Tensor& whole, int64_t dim, const Division& division);

}  // namespace models
