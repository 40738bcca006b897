#include "optim/block8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include "optim/block8_map.h"

namespace fsdp::optim {

namespace {

constexpr int kDecades = 7;

// The smallest float that is nearer to `above` than to `below`. The sum of two floats of a map is exact in double.
constexpr float first_nearer(float above, float below) {
  const double middle = (static_cast<double>(above) + static_cast<double>(below)) / 2;
  const auto rounded = static_cast<float>(middle);
  return static_cast<double>(rounded) > middle ? rounded : std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) + 1);
}

// Values rise with the place; the last one is 1.
template <size_t kPlaces>
using Places = std::array<float, kPlaces>;

// The middles of 1, 2, 4, ... equal parts of each decade; 2, 4, 8, ... where there is no sign.
template <size_t kPlaces>
constexpr Places<kPlaces> make_places() {
  Places<kPlaces> values{};
  size_t place = 1;
  double decade = 1e-6;
  for (int i = 0, parts = kPlaces / 128; i < kDecades; ++i, parts *= 2, decade *= 10) {
    for (int part = 0; part < parts; ++part) {
      values[place++] = static_cast<float>(decade * (0.1 + 0.9 * (2 * part + 1) / (2 * parts)));
    }
  }
  values.back() = 1;
  return values;
}

template <size_t kPlaces>
constexpr Block8Entries make_entries(const Places<kPlaces>& values) {
  Block8Entries entries{};
  uint32_t place = 0;
  for (uint32_t key = kBlock8LowestKey; key < kBlock8HighestKey; ++key) {
    const auto begins = [&](uint32_t next) {
      return next < kPlaces ? std::bit_cast<uint32_t>(first_nearer(values[next], values[next - 1])) : ~uint32_t{0};
    };
    while (begins(place + 1) <= key << 16) ++place;
    const uint32_t next = begins(place + 1);
    entries[key - kBlock8LowestKey] = (place << 16) + (next >> 16 == key ? 0x10000 - (next & 0xffff) : 0);
  }
  entries.back() = static_cast<uint32_t>(kPlaces - 1) << 16;
  return entries;
}

// Or one entry would not tell the place of every float of a key.
template <size_t kPlaces>
constexpr bool has_one_beginning_per_key(const Places<kPlaces>& values) {
  uint32_t before = 0;
  for (size_t place = 1; place < kPlaces; ++place) {
    const uint32_t key = std::bit_cast<uint32_t>(first_nearer(values[place], values[place - 1])) >> 16;
    if (key == before || key < kBlock8LowestKey || key >= kBlock8HighestKey) return false;
    before = key;
  }
  return true;
}

constexpr Places<128> kSigned = make_places<128>();
constexpr Places<256> kUnsigned = make_places<256>();
static_assert(has_one_beginning_per_key(kSigned) && has_one_beginning_per_key(kUnsigned));
constexpr Block8Entries kSignedEntries = make_entries(kSigned), kUnsignedEntries = make_entries(kUnsigned);

template <size_t kPlaces>
constexpr Places<kPlaces> make_begins(const Places<kPlaces>& values) {
  Places<kPlaces> begins{};
  for (size_t place = 1; place < kPlaces; ++place) begins[place] = first_nearer(values[place], values[place - 1]);
  return begins;
}

template <size_t kPlaces>
constexpr Block8Planes<kPlaces> make_planes(const Places<kPlaces>& floats) {
  Block8Planes<kPlaces> planes{};
  for (size_t place = 0; place < kPlaces; ++place) {
    const auto bits = std::bit_cast<uint32_t>(floats[place]);
    for (size_t plane = 0; plane < planes.size(); ++plane)
      planes[plane][place] = static_cast<uint8_t>(bits >> 8 * plane);
  }
  return planes;
}

// The decade of `value`, counted from 1; values before the first have its line.
constexpr int decade_of(double value) {
  int number = 1;
  for (double end = 1e-6; end <= value && number < kDecades; end *= 10) ++number;
  return number;
}

// The line on which the parts of a decade begin.
template <size_t kPlaces>
constexpr double line_of(int decade, double value) {
  double parts = kPlaces / 128, before = 1, end = 1e-6;
  for (int i = 1; i < decade; ++i) before += parts, parts *= 2, end *= 10;
  return before + (value / end - 0.1) / 0.9 * parts;
}

template <size_t kPlaces>
constexpr Block8Lines make_lines() {
  Block8Lines lines{};
  double low = 1.0 / (uint64_t{1} << 31);
  for (size_t i = 0; i < 31; ++i, low *= 2) {
    const std::array decades{decade_of(low), decade_of(2 * low)};
    for (size_t line = 0; line < lines.size(); ++line) {
      const double begin = line_of<kPlaces>(decades[line], low), end = line_of<kPlaces>(decades[line], 2 * low);
      lines[line].begin[i] = static_cast<uint16_t>(256 * (begin + 0.5));
      lines[line].rise[i] = static_cast<uint16_t>(256 * (end - begin));
    }
  }
  for (Block8Line& line : lines) line.begin.back() = static_cast<uint16_t>(256 * (kPlaces - 1));
  return lines;
}

// Of 0 to 1; all else has the last place.
int place_of(float ratio, const Block8Entries& entries) {
  const auto bits = std::bit_cast<uint32_t>(ratio);
  const uint32_t key = std::clamp(bits >> 16, kBlock8LowestKey, kBlock8HighestKey);
  const uint32_t low = key == kBlock8HighestKey ? 0 : bits & 0xffff;
  return static_cast<int>((entries[key - kBlock8LowestKey] + low) >> 16);
}

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
    values[static_cast<uint8_t>(code)] = code < 0 ? -kSigned[place] : kSigned[place];
  }
  return values;
}();

}  // namespace

float block8_value(int8_t code) { return kSignedValues[static_cast<uint8_t>(code)]; }
float block8_value(uint8_t code) { return kUnsigned[code]; }

float block8_pack(std::span<const float> values, int8_t* codes) {
  const float scale = largest(values);
  const Ratios ratios = ratios_to(scale, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const int place = place_of(ratios[i], kSignedEntries), sign = std::bit_cast<int32_t>(values[i]) >> 31;  // 0 or -1
    codes[i] = static_cast<int8_t>((place ^ sign) - sign);  // no branch: signs are hard to foresee
  }
  return scale;
}

float block8_pack(std::span<const float> values, uint8_t* codes) {
  const float scale = largest(values);
  const Ratios ratios = ratios_to(scale, values);
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = static_cast<uint8_t>(std::max(place_of(ratios[i], kUnsignedEntries), values[i] != 0 ? 1 : 0));
  }
  return scale;
}

void block8_unpack(std::span<const int8_t> codes, float scale, float* values) {
  for (size_t i = 0; i < codes.size(); ++i) values[i] = block8_value(codes[i]) * scale;
}

void block8_unpack(std::span<const uint8_t> codes, float scale, float* values) {
  for (size_t i = 0; i < codes.size(); ++i) values[i] = block8_value(codes[i]) * scale;
}

const Block8Map& block8_signed_map() {
  static constexpr auto values = make_planes(kSigned), begins = make_planes(make_begins(kSigned));
  static constexpr auto lines = make_lines<128>();
  static constexpr Block8Map map{kSignedEntries.data(), kSignedValues.data(), values[0].data(), begins[0].data(),
                                 &lines};
  return map;
}

const Block8Map& block8_unsigned_map() {
  static constexpr auto values = make_planes(kUnsigned), begins = make_planes(make_begins(kUnsigned));
  static constexpr auto lines = make_lines<256>();
  static constexpr Block8Map map{kUnsignedEntries.data(), kUnsigned.data(), values[0].data(), begins[0].data(), &lines};
  return map;
}

}  // namespace fsdp::optim
