// The map of block8.h in numbers, for its own loops and for those of vector instructions.
#pragma once

#include <cstdint>

namespace fsdp::optim {

inline constexpr int kBlock8Dropped = 19;          // bits of a float's mantissa that no code keeps
inline constexpr int32_t kBlock8One = 0x3f800000;  // the float 1 in bits: the code 0
inline constexpr int32_t kBlock8Half = 0x3ffff;  // added before bits are dropped: just less than half of the last kept
inline constexpr float kBlock8LeastScale = 0x1p-112F;  // top divided by it is finite

struct Block8Map {
  float top;   // y of the largest code, less 1
  float unit;  // 1 / top, a little larger, so that the largest code stands for no less than the scale
};
constexpr Block8Map make_block8_map(float top) { return {top, (1 + 0x1p-21F) / top}; }

inline constexpr Block8Map kBlock8Signed = make_block8_map(247), kBlock8Unsigned = make_block8_map(63487);
static_assert(kBlock8Signed.top + 1 == 0x1.fp7F && kBlock8Unsigned.top + 1 == 0x1.fp15F, "codes 127 and 255");

}  // namespace fsdp::optim
