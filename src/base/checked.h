// Arithmetic on sizes that fails loudly instead of wrapping around.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace fsdp {

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  FSDP_CHECK(!__builtin_add_overflow(a, b, &sum), "{} + {} does not fit in 64 bits", a, b);
  return sum;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  FSDP_CHECK(!__builtin_mul_overflow(a, b, &product), "{} * {} does not fit in 64 bits", a, b);
  return product;
}

// The smallest multiple of `step` that is not below `value`; `step` is positive, `value` is not negative.
inline int64_t round_up(int64_t value, int64_t step) { return checked_add(value, step - 1) / step * step; }

}  // namespace fsdp
