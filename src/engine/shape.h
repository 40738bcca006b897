// A dense tensor that a unit holds: its strides stay as the user chose them (channels-last weights).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace fsdp::engine {

struct Shape {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

inline Shape shape_of(const torch::Tensor& tensor) {
  // Strides that leave holes or overlap cannot be kept in flat memory.
  const bool dense = tensor.is_non_overlapping_and_dense();
  const torch::Tensor kept = dense ? tensor : torch::empty(tensor.sizes(), torch::device(torch::kMeta));
  return {tensor.sizes().vec(), kept.strides().vec()};
}

}  // namespace fsdp::engine
