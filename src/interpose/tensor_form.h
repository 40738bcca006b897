// A tensor's dtype, device and sizes: equal for two that stand for each other.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace fsdp::interpose {

struct TensorForm {
  torch::ScalarType dtype;
  torch::Device device;
  std::vector<int64_t> sizes;  // none of a nested tensor

  static TensorForm of(const torch::Tensor& tensor) {
    return {tensor.scalar_type(), tensor.device(), tensor.is_nested() ? std::vector<int64_t>() : tensor.sizes().vec()};
  }
  // "Float [4, 8] on cpu"
  std::string words() const {
    return fmt::format("{} [{}] on {}", toString(dtype), fmt::join(sizes, ", "), device.str());
  }
  bool operator==(const TensorForm&) const = default;
};

}  // namespace fsdp::interpose
