#include "optim/block8.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "optim/block8_map.h"

namespace fsdp::optim {

namespace {

// As integers, in whose order NaN is the largest.
float scale_of(std::span<const float> values) {
  int32_t bits = std::bit_cast<int32_t>(kBlock8LeastScale);
  for (float value : values) bits = std::max(bits, std::bit_cast<int32_t>(value) & 0x7fffffff);
  return std::bit_cast<float>(bits);
}

// The code of an absolute value; factor: top / scale.
int code_of(const Block8Map& map, float value, float factor) {
  const float ratio = value * factor;
  const float y = (ratio < map.top ? ratio : map.top) + 1;  // of NaN the largest code
  return (std::bit_cast<int32_t>(y) - kBlock8One + kBlock8Half) >> kBlock8Dropped;
}

// The value of an absolute code.
float value_of(const Block8Map& map, int code, float scale) {
  const auto y = std::bit_cast<float>(kBlock8One + (code << kBlock8Dropped));
  const float value = (y - 1) * (scale * map.unit);
  return value < scale ? value : scale;
}

}  // namespace

float block8_pack(std::span<const float> values, int8_t* codes) {
  const float scale = scale_of(values), factor = kBlock8Signed.top / scale;
  for (size_t i = 0; i < values.size(); ++i) {
    const int code = code_of(kBlock8Signed, std::abs(values[i]), factor);
    codes[i] = static_cast<int8_t>(std::signbit(values[i]) ? -code : code);
  }
  return scale;
}

float block8_pack(std::span<const float> values, uint8_t* codes) {
  const float scale = scale_of(values), factor = kBlock8Unsigned.top / scale;
  for (size_t i = 0; i < values.size(); ++i) {
    const int least = values[i] != 0 ? 1 : 0;
    codes[i] = static_cast<uint8_t>(std::max(code_of(kBlock8Unsigned, std::abs(values[i]), factor), least));
  }
  return scale;
}

void block8_unpack(std::span<const int8_t> codes, float scale, float* values) {
  for (size_t i = 0; i < codes.size(); ++i) {
    const float value = value_of(kBlock8Signed, std::abs(int{codes[i]}), scale);
    values[i] = codes[i] < 0 ? -value : value;
  }
}

void block8_unpack(std::span<const uint8_t> codes, float scale, float* values) {
  for (size_t i = 0; i < codes.size(); ++i) values[i] = value_of(kBlock8Unsigned, codes[i], scale);
}

float block8_value(int8_t code) {
  float value = 0;
  block8_unpack(std::span(&code, 1), 1, &value);
  return value;
}

float block8_value(uint8_t code) {
  float value = 0;
  block8_unpack(std::span(&code, 1), 1, &value);
  return value;
}

}  // namespace fsdp::optim
