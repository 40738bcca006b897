#include "optim/block8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace fsdp::optim {

namespace {

constexpr int kDecades = 7;
// A float from 0 to 1 is found by its upper 16 bits, exponent and 7 bits of the mantissa, from 2^-24 on.
constexpr uint32_t kLowestKey = (127 - 24) << 7, kHighestKey = 127 << 7;
constexpr size_t kKeys = kHighestKey - kLowestKey + 1;

constexpr float float_of(uint32_t key) { return std::bit_cast<float>(key << 16); }

// The smallest float that is nearer to `above` than to `below`. The sum of two floats of a map is exact in double.
constexpr float first_nearer(float above, float below) {
  const double middle = (static_cast<double>(above) + static_cast<double>(below)) / 2;
  const auto rounded = static_cast<float>(middle);
  return static_cast<double>(rounded) > middle ? rounded : std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) + 1);
}

template <size_t kPlaces>
struct Map {
  std::array<float, kPlaces> values{};
  std::array<float, kPlaces> ends{};    // the smallest float that belongs to the next place
  std::array<uint8_t, kKeys> places{};  // of the smallest float of each key

  // The middles of 1, 2, 4, ... equal parts of each decade; 2, 4, 8, ... where there is no sign.
  constexpr Map() {
    size_t place = 1;
    double decade = 1e-6;
    for (int i = 0, parts = kPlaces / 128; i < kDecades; ++i, parts *= 2, decade *= 10) {
      for (int part = 0; part < parts; ++part) {
        values[place++] = static_cast<float>(decade * (0.1 + 0.9 * (2 * part + 1) / (2 * parts)));
      }
    }
    values.back() = 1;
    for (size_t i = 0; i + 1 < kPlaces; ++i) ends[i] = first_nearer(values[i + 1], values[i]);
    ends.back() = std::numeric_limits<float>::infinity();
    for (size_t key = 1, found = 0; key < kKeys; ++key) {
      while (float_of(kLowestKey + key) >= ends[found]) ++found;
      places[key] = static_cast<uint8_t>(found);
    }
  }

  // So that one comparison tells the place of every float of a key.
  constexpr bool has_one_end_per_key() const {
    for (size_t key = 0; key + 1 < kKeys; ++key) {
      if (places[key + 1] > places[key] + 1) return false;
    }
    return true;
  }

  // Of 0 to 1; all else has the last place.
  uint8_t place_of(float ratio) const {
    const uint32_t key = std::clamp(std::bit_cast<uint32_t>(ratio) >> 16, kLowestKey, kHighestKey);
    const uint8_t place = places[key - kLowestKey];
    return static_cast<uint8_t>(place + (ratio >= ends[place] ? 1 : 0));
  }
};

constexpr Map<128> kSigned;
constexpr Map<256> kUnsigned;
static_assert(kSigned.has_one_end_per_key() && kUnsigned.has_one_end_per_key());

// As integers, in whose order NaN is the largest.
float largest(std::span<const float> values) {
  int32_t bits = 0;
  for (float value : values) bits = std::max(bits, std::bit_cast<int32_t>(value) & 0x7fffffff);
  return std::bit_cast<float>(bits);
}

using Ratios = std::array<float, kBlock8Numel>;

Ratios ratios_to(float scale, std::span<const float> values) {
  Ratios ratios;
  const float divisor = scale > 0 ? scale : 1;
  for (size_t i = 0; i < values.size(); ++i) ratios[i] = std::abs(values[i]) / divisor;
  return ratios;
}

// By code, seen as a number from 0 to 255.
constexpr std::array<float, 256> kSignedValues = [] {
  std::array<float, 256> values{};
  for (int code = -128; code < 128; ++code) {
    const size_t place = static_cast<size_t>(std::min(code < 0 ? -code : code, 127));
    values[static_cast<uint8_t>(code)] = code < 0 ? -kSigned.values[place] : kSigned.values[place];
  }
  return values;
}();

}  // namespace

float block8_value(int8_t code) { return kSignedValues[static_cast<uint8_t>(code)]; }
float block8_value(uint8_t code) { return kUnsigned.values[code]; }

float block8_pack(std::span<const float> values, int8_t* codes) {
  const float scale = largest(values);
  const Ratios ratios = ratios_to(scale, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const int place = kSigned.place_of(ratios[i]), sign = std::bit_cast<int32_t>(values[i]) >> 31;  // 0 or -1
    codes[i] = static_cast<int8_t>((place ^ sign) - sign);  // no branch: signs are hard to foresee
  }
  return scale;
}

float block8_pack(std::span<const float> values, uint8_t* codes) {
  const float scale = largest(values);
  const Ratios ratios = ratios_to(scale, values);
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = std::max<uint8_t>(kUnsigned.place_of(ratios[i]), values[i] != 0 ? 1 : 0);
  }
  return scale;
}

void block8_unpack(std::span<const int8_t> codes, float scale, float* values) {
  for (size_t i = 0; i < codes.size(); ++i) values[i] = block8_value(codes[i]) * scale;
}

void block8_unpack(std::span<const uint8_t> codes, float scale, float* values) {
  for (size_t i = 0; i < codes.size(); ++i) values[i] = block8_value(codes[i]) * scale;
}

}  // namespace fsdp::optim
