// The dtype and the shape of a tensor as numbers, for a rank that does not know them. Plain data.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::collectives {

struct TensorHeader {
  static constexpr int64_t kMostDims = 12;

  int64_t dtype = 0;
  int64_t on_cpu = 1;  // 0: on the device of the group
  int64_t dims = 0;
  std::array<int64_t, kMostDims> sizes = {};

  bool same_shape(const TensorHeader& other) const { return dtype == other.dtype && shape() == other.shape(); }
  torch::ScalarType scalar_type() const { return static_cast<torch::ScalarType>(dtype); }
  std::vector<int64_t> shape() const { return {sizes.begin(), sizes.begin() + dims}; }
  // A tensor like it, with any values. `device`: that of the group.
  torch::Tensor empty_like_it(torch::Device device) const {
    return torch::empty(shape(), torch::dtype(scalar_type()).device(on_cpu ? torch::Device(torch::kCPU) : device));
  }
};

// A tensor of at most kMostDims dimensions.
TensorHeader header_of(const torch::Tensor& tensor);

// "a Float tensor of shape [2, 3]"
std::string describe(const TensorHeader& header);

}  // namespace fsdp::collectives
