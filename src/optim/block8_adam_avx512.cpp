// Compiled for AVX-512 with byte permutations (VBMI), and so without any header whose inline functions others share.
//
// A block's 64 codes are one vector of bytes, and its floats are four vectors. Tables are looked up by bytes, in
// registers: a gather takes as long as it has lanes on many processors.
#include <immintrin.h>

#include <cstdint>

#include "optim/block8_kernels.h"

namespace fsdp::optim {

namespace {

constexpr int64_t kBlock = 64, kLanes = 16;
constexpr int kVectors = kBlock / kLanes;

// Of a block, in the order of its elements.
struct Floats {
  __m512 of[kVectors];
};
struct Integers {
  __m512i of[kVectors];
};

// Bytes of a block are in memory's order, or in that to which packing four vectors leads, and unpacking from: by fours.
inline __m512i other_order(__m512i bytes) {
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

template <typename Code>
constexpr int kPlaces = Code(-1) < 0 ? 128 : 256;

template <int kCount>
inline __m512i looked_up(const uint8_t* plane, __m512i places) {
  const __m512i found = _mm512_permutex2var_epi8(_mm512_loadu_si512(plane), places, _mm512_loadu_si512(plane + 64));
  if constexpr (kCount == 128) {
    return found;
  } else {
    const __m512i others =
        _mm512_permutex2var_epi8(_mm512_loadu_si512(plane + 128), places, _mm512_loadu_si512(plane + 192));
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(places), found, others);
  }
}

// Of the planes, by places in the order of packing; `top` is set in the highest bytes.
template <int kCount>
inline Floats floats_at(const uint8_t* planes, __m512i places, __m512i top) {
  const __m512i bytes0 = looked_up<kCount>(planes, places), bytes1 = looked_up<kCount>(planes + kCount, places);
  const __m512i bytes2 = looked_up<kCount>(planes + 2 * kCount, places);
  const __m512i bytes3 = _mm512_or_si512(looked_up<kCount>(planes + 3 * kCount, places), top);
  const __m512i low01 = _mm512_unpacklo_epi8(bytes0, bytes1), high01 = _mm512_unpackhi_epi8(bytes0, bytes1);
  const __m512i low23 = _mm512_unpacklo_epi8(bytes2, bytes3), high23 = _mm512_unpackhi_epi8(bytes2, bytes3);
  return {{_mm512_castsi512_ps(_mm512_unpacklo_epi16(low01, low23)),
           _mm512_castsi512_ps(_mm512_unpackhi_epi16(low01, low23)),
           _mm512_castsi512_ps(_mm512_unpacklo_epi16(high01, high23)),
           _mm512_castsi512_ps(_mm512_unpackhi_epi16(high01, high23))}};
}

inline Floats values_of(const uint8_t* planes, __m512i codes, const int8_t*) {
  const __m512i places = _mm512_min_epu8(_mm512_abs_epi8(codes), _mm512_set1_epi8(127));  // -128 is read as -127
  return floats_at<128>(planes, places, _mm512_and_si512(codes, _mm512_set1_epi8(-128)));
}
inline Floats values_of(const uint8_t* planes, __m512i codes, const uint8_t*) {
  return floats_at<256>(planes, codes, _mm512_setzero_si512());
}

template <typename Code>
inline Floats unpacked(const Block8Map& map, const Code* codes, float scale) {
  Floats values = values_of(map.value_planes, other_order(_mm512_loadu_si512(codes)), codes);
  for (__m512& value : values.of) value = _mm512_mul_ps(value, _mm512_set1_ps(scale));
  return values;
}

inline __m512i without_sign(__m512 value) {
  return _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(0x7fffffff));
}

// As integers, in whose order NaN is the largest.
inline float largest_of(const Floats& values) {
  const __m512i low = _mm512_max_epi32(without_sign(values.of[0]), without_sign(values.of[1]));
  const __m512i high = _mm512_max_epi32(without_sign(values.of[2]), without_sign(values.of[3]));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(_mm512_max_epi32(low, high)))));
}

// Of 32 numbers, whose upper 5 bits are a power of 2 and the lower ones where between it and the next.
inline __m512i heights_at(const Block8Lines& lines, __m512i numbers) {
  const __m512i power = _mm512_srli_epi16(numbers, 11), beyond = _mm512_slli_epi16(numbers, 5);
  const auto height = [&](const Block8Line& line) {
    const __m512i begin = _mm512_permutexvar_epi16(power, _mm512_loadu_si512(line.begin.data()));
    const __m512i rise = _mm512_permutexvar_epi16(power, _mm512_loadu_si512(line.rise.data()));
    return _mm512_add_epi16(begin, _mm512_mulhi_epu16(beyond, rise));
  };
  return _mm512_min_epu16(height(lines[0]), height(lines[1]));
}

// In the order of packing. What is not finite, or above 1, has the last place.
template <int kCount>
inline __m512i places_or_next(const Block8Lines& lines, const Integers& ratios) {
  const auto number = [&](int i) {  // from 2^-31 on
    return _mm512_srai_epi32(_mm512_sub_epi32(ratios.of[i], _mm512_set1_epi32((127 - 31) << 23)), 12);
  };
  const __m512i low = heights_at(lines, _mm512_packus_epi32(number(0), number(1)));
  const __m512i high = heights_at(lines, _mm512_packus_epi32(number(2), number(3)));
  const __m512i places = _mm512_packus_epi16(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high, 8));
  return _mm512_min_epu8(places, _mm512_set1_epi8(static_cast<char>(kCount - 1)));
}

// A bit for each element of a block.
template <typename Bits>
inline __mmask64 bits_of_block(const Bits& bits_of) {
  const auto pair = [&](int i) { return _mm512_kunpackw(bits_of(i + 1), bits_of(i)); };
  return _mm512_kunpackd(pair(2), pair(0));
}

// To codes of the value's sign.
inline __m512i codes_of(__m512i places, const Floats& values, const int8_t*) {
  const __mmask64 negative =
      bits_of_block([&](int i) { return _mm512_movepi32_mask(_mm512_castps_si512(values.of[i])); });
  return _mm512_mask_sub_epi8(places, negative, _mm512_setzero_si512(), places);
}

// What is not 0 has not the place 0.
inline __m512i codes_of(__m512i places, const Floats& values, const uint8_t*) {
  const __mmask64 is_some = bits_of_block(
      [&](int i) { return _mm512_test_epi32_mask(_mm512_castps_si512(values.of[i]), _mm512_set1_epi32(0x7fffffff)); });
  return _mm512_mask_max_epu8(places, is_some, places, _mm512_set1_epi8(1));
}

// Whether every ratio is farther than `margin` floats from where its place, or the next, begins.
template <typename Code>
inline bool pack_ratios(const Block8Map& map, const Integers& ratios, const Floats& values, int margin, Code* codes) {
  constexpr int kCount = kPlaces<Code>;
  const __m512i places = places_or_next<kCount>(*map.lines, ratios);
  const Floats begins = floats_at<kCount>(map.begin_planes, places, _mm512_setzero_si512());
  const auto beyond = [&](int i) { return _mm512_sub_epi32(ratios.of[i], _mm512_castps_si512(begins.of[i])); };
  const __mmask64 before = bits_of_block([&](int i) { return _mm512_movepi32_mask(beyond(i)); });
  const __mmask64 near = bits_of_block([&](int i) {
    return _mm512_cmple_epu32_mask(_mm512_add_epi32(beyond(i), _mm512_set1_epi32(margin)),
                                   _mm512_set1_epi32(2 * margin));
  });
  const __m512i ordered = other_order(places);
  const __m512i found = _mm512_mask_sub_epi8(ordered, before, ordered, _mm512_set1_epi8(1));
  _mm512_storeu_si512(codes, codes_of(found, values, codes));
  return near == 0;
}

// As floats' bits, with the largest for what is not finite.
inline Integers exact_ratios(const Floats& values, float scale) {
  const __m512 divisor = _mm512_set1_ps(scale > 0 ? scale : 1);  // 1 for NaN too
  Integers ratios;
  for (int i = 0; i < kVectors; ++i) ratios.of[i] = without_sign(_mm512_div_ps(values.of[i], divisor));
  return ratios;
}

// To a few floats, for scales whose inverse is none of the smallest and largest floats.
inline Integers near_ratios(const Floats& values, float scale) {
  const __m512 factor = _mm512_set1_ps(1 / scale);
  Integers ratios;
  for (int i = 0; i < kVectors; ++i) ratios.of[i] = without_sign(_mm512_mul_ps(values.of[i], factor));
  return ratios;
}

// Divisions take longest of all, so they are left out where a product tells the place for certain.
template <typename Code>
inline void pack_block(const Block8Map& map, const Floats& values, Code* codes, float* scale) {
  const float largest = largest_of(values);
  *scale = largest;
  const bool has_inverse = largest > 1e-30F && largest < 1e30F;
  if (has_inverse && pack_ratios(map, near_ratios(values, largest), values, /*margin=*/8, codes)) return;
  pack_ratios(map, exact_ratios(values, largest), values, /*margin=*/0, codes);
}

// AdamNumbers in every lane.
struct WideNumbers {
  explicit WideNumbers(const AdamNumbers& of)
      : sign(_mm512_set1_ps(of.sign)),
        added_decay(_mm512_set1_ps(of.added_decay)),
        kept(_mm512_set1_ps(of.kept)),
        beta1(_mm512_set1_ps(of.beta1)),
        rest1(_mm512_set1_ps(of.rest1)),
        beta2(_mm512_set1_ps(of.beta2)),
        rest2(_mm512_set1_ps(of.rest2)),
        root_factor(_mm512_set1_ps(of.root_factor)),
        eps(_mm512_set1_ps(of.eps)),
        step_size(_mm512_set1_ps(of.step_size)) {}
  __m512 sign, added_decay, kept, beta1, rest1, beta2, rest2, root_factor, eps, step_size;
};

inline __m512 sum_of_products(__m512 a, __m512 b, __m512 c, __m512 d) {
  return _mm512_add_ps(_mm512_mul_ps(a, b), _mm512_mul_ps(c, d));
}

// 16 elements; the moments are given, and changed.
inline void step_lanes(const WideNumbers& by, float* parameters, const float* gradients, __m512& first,
                       __m512& second) {
  const __m512 parameter = _mm512_loadu_ps(parameters);
  const __m512 g = sum_of_products(by.sign, _mm512_loadu_ps(gradients), by.added_decay, parameter);
  first = sum_of_products(by.beta1, first, by.rest1, g);
  second = sum_of_products(by.beta2, second, by.rest2, _mm512_mul_ps(g, g));
  const __m512 root = _mm512_add_ps(_mm512_mul_ps(by.root_factor, _mm512_sqrt_ps(second)), by.eps);
  const __m512 change = _mm512_div_ps(_mm512_mul_ps(by.step_size, first), root);
  _mm512_storeu_ps(parameters, _mm512_sub_ps(_mm512_mul_ps(by.kept, parameter), change));
}

}  // namespace

void block8_adam_avx512(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                        const Block8Moments& moments, const Block8Map& signed_map, const Block8Map& unsigned_map) {
  const WideNumbers by(numbers);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kBlock;
    Floats first = unpacked(signed_map, moments.first + begin, moments.first_scales[block]);
    Floats second = unpacked(unsigned_map, moments.second + begin, moments.second_scales[block]);
    for (int i = 0; i < kVectors; ++i) {
      const int64_t at = begin + i * kLanes;
      step_lanes(by, parameters + at, gradients + at, first.of[i], second.of[i]);
    }
    pack_block(signed_map, first, moments.first + begin, moments.first_scales + block);
    pack_block(unsigned_map, second, moments.second + begin, moments.second_scales + block);
  }
}

}  // namespace fsdp::optim
