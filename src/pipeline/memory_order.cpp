#include "pipeline/memory_order.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace fsdp::pipeline {

MemoryOrder::MemoryOrder(at::IntArrayRef shape, at::IntArrayRef strides) : dims_(shape.size()), sizes_(shape.vec()) {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (strides[i] == 0) sizes_[i] = std::min<int64_t>(sizes_[i], 1);
    extent_ = sizes_[i] == 0 ? 0 : extent_ + (sizes_[i] - 1) * strides[i];
    if (extent_ == 0) break;
  }
  std::iota(dims_.begin(), dims_.end(), 0);
  std::ranges::stable_sort(dims_, std::greater(), [&](int64_t dim) { return strides[dim]; });
}

std::vector<int64_t> MemoryOrder::sizes() const {
  std::vector<int64_t> sizes;
  for (const int64_t dim : dims_) sizes.push_back(sizes_[dim]);
  return sizes;
}

torch::Tensor MemoryOrder::in_order(torch::Tensor tensor) const {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (tensor.size(static_cast<int64_t>(i)) != sizes_[i])
      tensor = tensor.narrow(static_cast<int64_t>(i), 0, sizes_[i]);
  }
  return std::ranges::is_sorted(dims_) ? tensor : tensor.permute(dims_);
}

int64_t misalignment_of(const torch::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignedBytes);
  return bytes / static_cast<int64_t>(tensor.element_size());
}

}  // namespace fsdp::pipeline
