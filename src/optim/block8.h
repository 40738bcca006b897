// Floats in 8 bits each and a scale per block of 64. This is the block-wise dynamic quantisation of Dettmers et al.,
// 8-bit Optimizers via Block-wise Quantization (https://arxiv.org/abs/2110.02861). The map is that of telephones (the
// mu-law of ITU-T G.711) instead of the paper's. That one is looked up in tables; this one is a few instructions.
//
// A block's scale is the largest of its absolute values, 2^-112 at least. A value becomes
//
//   y = 1 + top * |value| / scale
//
// of which the code keeps the exponent and 4 bits of the mantissa, rounded to the nearest; of two that are equally near
// it is the smaller one. So there are 16 places to each power of 2 of y, and they lie the closer the nearer to 0:
//
//              places   top      the smallest place   largest error
//   signed       127    247      2.5e-4 * scale       4 / 247 * scale, for values above 0.51 * scale
//   unsigned     255    63,487   9.8e-7 * scale       1024 / 63,487 * scale, or a 32nd of what is above 1e-5 * scale
//
// and 0. The largest place is 1 on both sides, so that what is packed again keeps its codes and its scale.
//
// Exact and the same everywhere: fp32, no two operations rounded as one. Pure; from any thread.
#pragma once

#include <cstdint>
#include <span>

namespace fsdp::optim {

inline constexpr int64_t kBlock8Numel = 64;

// The code's value, times the scale: codes are -127 to 127 (-128 is never written, and read as -127), and 0 to 255.
float block8_value(int8_t code);
float block8_value(uint8_t code);

// One block: up to 64 values and as many codes. A value that is not finite makes the whole block so.
float block8_pack(std::span<const float> values, int8_t* codes);  // returns the scale
void block8_unpack(std::span<const int8_t> codes, float scale, float* values);

// Without a sign, which is not looked at. A nonzero value becomes at least the smallest code. The step divides by the
// root of the second moment, so it must not vanish while the first moment remains.
float block8_pack(std::span<const float> values, uint8_t* codes);
void block8_unpack(std::span<const uint8_t> codes, float scale, float* values);

}  // namespace fsdp::optim
