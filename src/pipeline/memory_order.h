// The values of a tensor in the order of its memory. The ranks at both ends of a message compute it from shape and
// strides.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace fsdp::pipeline {

class MemoryOrder {
 public:
  MemoryOrder(at::IntArrayRef shape, at::IntArrayRef strides);

  // Elements of the tensor's memory, from the first to the last.
  int64_t extent() const { return extent_; }
  // The shape of `in_order`.
  std::vector<int64_t> sizes() const;
  // The tensor's elements, each once, along its memory.
  torch::Tensor in_order(torch::Tensor tensor) const;

 private:
  std::vector<int64_t> dims_;   // from the largest stride to the least
  std::vector<int64_t> sizes_;  // in the tensor's order, 1 where a stride is 0
  int64_t extent_ = 1;
};

// LibTorch aligns its memory so.
inline constexpr int64_t kAlignedBytes = 64;
// The elements between an aligned address and the tensor's first one.
int64_t misalignment_of(const torch::Tensor& tensor);

}  // namespace fsdp::pipeline
