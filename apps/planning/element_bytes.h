// The bytes of an element, by the dtypes of options: fp32, bf16 or fp16. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainer {

inline int64_t element_bytes(std::string_view dtype) { return dtype == "fp32" ? 4 : 2; }

}  // namespace trainer
