#include "collectives/tensor_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace fsdp::collectives {

TensorHeader header_of(const torch::Tensor& tensor) {
  TensorHeader header{
      .dtype = static_cast<int64_t>(tensor.scalar_type()), .on_cpu = tensor.is_cpu(), .dims = tensor.dim()};
  std::ranges::copy(tensor.sizes(), header.sizes.begin());
  return header;
}

torch::Tensor numbers_of(const TensorHeader& header) {
  torch::Tensor numbers = torch::empty({kHeaderNumbers}, torch::kInt64);
  std::memcpy(numbers.mutable_data_ptr(), &header, sizeof header);
  return numbers;
}

TensorHeader header_from(const torch::Tensor& numbers) {
  TensorHeader header;
  std::memcpy(&header, numbers.const_data_ptr(), sizeof header);
  return header;
}

std::string describe(const TensorHeader& header) {
  return fmt::format("a {} tensor of shape [{}]", c10::toString(header.scalar_type()), fmt::join(header.shape(), ", "));
}

}  // namespace fsdp::collectives
