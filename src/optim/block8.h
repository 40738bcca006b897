// Floats in 8 bits each and a scale per block of 64: the block-wise dynamic quantisation of Dettmers et al., 8-bit
// Optimizers via Block-wise Quantization (https://arxiv.org/abs/2110.02861).
//
// A block's scale is the largest of its absolute values, and a code is the place in a map of 0 to 1 that is nearest to
// value / scale; of two that are equally near it is the smaller one. The map is finer for large values: each decade
// from 1e-7 to 1 has twice the places of the one below. With a sign there are 127 places (1, 2, 4, ... 64 a decade),
// without one 255 (2, 4, ... 128 a decade), and 0. The paper's signed map has 1 but not -1, so that a negative block
// would shrink whenever it is stored; here the largest place is 1 on both sides.
//
// Exact and the same everywhere: one division in fp32, and comparisons. Pure; from any thread.
#pragma once

#include <cstdint>
#include <span>

namespace fsdp::optim {

inline constexpr int64_t kBlock8Numel = 64;

// What the code stands for, times the scale: -127 to 127 (-128 is not written, and read as -127), and 0 to 255.
float block8_value(int8_t code);
float block8_value(uint8_t code);

// One block: up to 64 values and as many codes. A value that is not finite makes the whole block so, or NaN.
float block8_pack(std::span<const float> values, int8_t* codes);  // returns the scale
void block8_unpack(std::span<const int8_t> codes, float scale, float* values);

// Without a sign, which is not looked at. What is not 0 becomes the smallest place at least: of a second moment, whose
// root is divided by, nothing may vanish that a first moment could still have.
float block8_pack(std::span<const float> values, uint8_t* codes);
void block8_unpack(std::span<const uint8_t> codes, float scale, float* values);

}  // namespace fsdp::optim
