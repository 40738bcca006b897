#include "formats/stored_tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/element_types.h"

namespace fsdp::formats {

std::string TensorName::text() const {
  return role == Role::State ? fmt::format("optimizer.{}.{}", state, name) : name;
}

int64_t StoredTensor::bytes() const { return bytes_of(type, shape).value(); }

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

}  // namespace fsdp::formats
