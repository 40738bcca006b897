// Windows of the text as tensors.
#pragma once

#include <torch/torch.h>

#include <string_view>
#include <vector>

namespace trainer {

struct Batch {
  torch::Tensor tokens;   // [windows, context], int64
  torch::Tensor targets;  // the same, one byte later
};

// The windows of context + 1 bytes that begin at `starts`.
Batch make_batch(std::string_view text, const std::vector<int64_t>& starts, int64_t context);

}  // namespace trainer
