#include "collectives/tensor_header.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace fsdp::collectives {

TensorHeader header_of(const torch::Tensor& tensor) {
  TensorHeader header{
      .dtype = static_cast<int64_t>(tensor.scalar_type()), .on_cpu = tensor.is_cpu(), .dims = tensor.dim()};
  std::ranges::copy(tensor.sizes(), header.sizes.begin());
  return header;
}

std::string describe(const TensorHeader& header) {
  return fmt::format("a {} tensor of shape [{}]", c10::toString(header.scalar_type()), fmt::join(header.shape(), ", "));
}

}  // namespace fsdp::collectives
