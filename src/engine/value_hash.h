// Hashes by which ranks compare tensors.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace fsdp::engine {

// A hash of the bits of all elements, on any device. The same in all processes of one program.
inline int64_t hash_of_values(const torch::Tensor& tensor) {
  const torch::Tensor here = tensor.detach().contiguous().cpu();
  return static_cast<int64_t>(
      std::hash<std::string_view>()({static_cast<const char*>(here.const_data_ptr()), here.nbytes()}));
}

}  // namespace fsdp::engine
