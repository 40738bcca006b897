// A plain value as a tensor of its bytes, for ranks of one program to exchange.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fsdp::collectives {

// [sizeof(Value)], uint8.
template <typename Value>
torch::Tensor bytes_of_value(const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  torch::Tensor bytes = torch::empty({static_cast<int64_t>(sizeof value)}, torch::kUInt8);
  std::memcpy(bytes.mutable_data_ptr(), &value, sizeof value);
  return bytes;
}

// The value of such a tensor.
template <typename Value>
Value value_of_bytes(const torch::Tensor& bytes) {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value value;
  std::memcpy(&value, bytes.const_data_ptr(), sizeof value);
  return value;
}

}  // namespace fsdp::collectives
