// Windows of the data as tensors.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "data/token_source.h"

namespace data {

struct Batch {
  torch::Tensor tokens;   // [windows, context], int64
  torch::Tensor targets;  // the same, one token later
};

// The windows of context + 1 tokens that begin at `starts`, each at most tokens.size() - context - 1. Throws
// fsdp::Error for a token that a model of this vocabulary does not have: it names the file, the place, the token and
// the vocabulary.
Batch make_batch(const TokenSource& tokens, const std::vector<int64_t>& starts, int64_t context, int64_t vocabulary);

// Copies the tensor to the device; for the CPU, returns the tensor itself. The host does not wait for the copy.
torch::Tensor to_device(const torch::Tensor& tensor, const torch::Device& device);

}  // namespace data
