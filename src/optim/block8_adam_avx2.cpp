// Compiled for AVX2, and so without any header whose inline functions others share.
#include <immintrin.h>

#include <cstdint>

#include "optim/block8_adam.h"
#include "optim/block8_kernels.h"
#include "optim/block8_map.h"

namespace fsdp::optim {

namespace {

constexpr int64_t kBlock = 64, kLanes = 8;
constexpr int64_t kAheadNumel = 512;  // 2 KiB

inline __m256i without_sign(__m256i bits) { return _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)); }
inline __m256i without_sign(__m256 values) { return without_sign(_mm256_castps_si256(values)); }

inline __m256i swapped_halves(__m256i bits) { return _mm256_permute2x128_si256(bits, bits, 1); }

// In every lane.
inline __m256 largest_of(__m256i lanes) {
  lanes = _mm256_max_epi32(lanes, swapped_halves(lanes));
  lanes = _mm256_max_epi32(lanes, _mm256_shuffle_epi32(lanes, 0b01001110));
  lanes = _mm256_max_epi32(lanes, _mm256_shuffle_epi32(lanes, 0b10110001));
  return _mm256_castsi256_ps(lanes);
}

// The codes of absolute values. Where a block is not finite its ratios are clamped: that of NaN is the top.
template <bool kFinite>
inline __m256i codes_of(const Block8Map& map, __m256 values, __m256 factor) {
  __m256 ratio = _mm256_mul_ps(values, factor);
  if constexpr (!kFinite) ratio = _mm256_min_ps(ratio, _mm256_set1_ps(map.top));
  const __m256i y = _mm256_castps_si256(_mm256_add_ps(ratio, _mm256_set1_ps(1)));
  return _mm256_srai_epi32(_mm256_add_epi32(y, _mm256_set1_epi32(kBlock8Half - kBlock8One)), kBlock8Dropped);
}

// The values of absolute codes.
inline __m256 values_of(const Block8Map& map, __m256i codes, __m256 scale) {
  const __m256i y = _mm256_add_epi32(_mm256_slli_epi32(codes, kBlock8Dropped), _mm256_set1_epi32(kBlock8One));
  const __m256 beyond_one = _mm256_sub_ps(_mm256_castsi256_ps(y), _mm256_set1_ps(1));
  return _mm256_min_ps(_mm256_mul_ps(beyond_one, _mm256_mul_ps(scale, _mm256_set1_ps(map.unit))), scale);
}

inline __m128i eight_codes(const void* codes) { return _mm_loadl_epi64(static_cast<const __m128i*>(codes)); }

inline __m256 unpacked(const int8_t* codes, __m256 scale) {
  const __m256i lanes = _mm256_cvtepi8_epi32(eight_codes(codes));
  const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(lanes), _mm256_set1_ps(-0.0F));
  return _mm256_or_ps(values_of(kBlock8Signed, _mm256_abs_epi32(lanes), scale), sign);
}

inline __m256 unpacked(const uint8_t* codes, __m256 scale) {
  return values_of(kBlock8Unsigned, _mm256_cvtepu8_epi32(eight_codes(codes)), scale);
}

template <bool kFinite>
inline __m256i coded(__m256 values, __m256 factor, const int8_t*) {
  const __m256i codes = codes_of<kFinite>(kBlock8Signed, _mm256_castsi256_ps(without_sign(values)), factor);
  return _mm256_sign_epi32(codes, _mm256_castps_si256(values));  // of 0 the code is 0
}

// None is below 0. A nonzero value never has code 0.
template <bool kFinite>
inline __m256i coded(__m256 values, __m256 factor, const uint8_t*) {
  const __m256i least = _mm256_min_epi32(_mm256_castps_si256(values), _mm256_set1_epi32(1));
  return _mm256_max_epi32(codes_of<kFinite>(kBlock8Unsigned, values, factor), least);
}

inline __m256i narrow(__m256i a, __m256i b, const int8_t*) { return _mm256_packs_epi16(a, b); }
inline __m256i narrow(__m256i a, __m256i b, const uint8_t*) { return _mm256_packus_epi16(a, b); }

template <bool kFinite, typename Code>
inline void pack_lanes(const Block8Map& map, const float* values, __m256 scale, Code* codes) {
  const __m256 factor = _mm256_div_ps(_mm256_set1_ps(map.top), scale);
  const auto coded_at = [&](int64_t i) { return coded<kFinite>(_mm256_load_ps(values + i), factor, codes); };
  for (int64_t i = 0; i < kBlock; i += 4 * kLanes) {
    const __m256i low = _mm256_packs_epi32(coded_at(i), coded_at(i + kLanes));
    const __m256i high = _mm256_packs_epi32(coded_at(i + 2 * kLanes), coded_at(i + 3 * kLanes));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // narrowing goes by halves
    const __m256i found = _mm256_permutevar8x32_epi32(narrow(low, high, codes), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), found);
  }
}

template <typename Code>
inline void pack_block(const Block8Map& map, const float* values, __m256 scale, Code* codes) {
  const bool finite = _mm_cvtsi128_si32(_mm_castps_si128(_mm256_castps256_ps128(scale))) < 0x7f800000;
  finite ? pack_lanes<true>(map, values, scale, codes) : pack_lanes<false>(map, values, scale, codes);
}

// AdamNumbers in every lane.
struct Numbers {
  explicit Numbers(const AdamNumbers& of)
      : sign(_mm256_set1_ps(of.sign)),
        added_decay(_mm256_set1_ps(of.added_decay)),
        kept(_mm256_set1_ps(of.kept)),
        beta1(_mm256_set1_ps(of.beta1)),
        rest1(_mm256_set1_ps(of.rest1)),
        beta2(_mm256_set1_ps(of.beta2)),
        rest2(_mm256_set1_ps(of.rest2)),
        eps(_mm256_set1_ps(of.eps)),
        step_size(_mm256_set1_ps(of.step_size)) {}
  __m256 sign, added_decay, kept, beta1, rest1, beta2, rest2, eps, step_size;
};

inline __m256 sum_of_products(__m256 a, __m256 b, __m256 c, __m256 d) {
  return _mm256_add_ps(_mm256_mul_ps(a, b), _mm256_mul_ps(c, d));
}

// Eight elements; the moments are given, and changed. kAsIs: gradients are neither negated nor added to.
template <bool kAsIs>
inline void step_lanes(const Numbers& by, float* parameters, const float* gradients, __m256& first, __m256& second) {
  const __m256 parameter = _mm256_loadu_ps(parameters);
  __m256 g = _mm256_loadu_ps(gradients);
  if constexpr (!kAsIs) g = sum_of_products(by.sign, g, by.added_decay, parameter);
  first = sum_of_products(by.beta1, first, by.rest1, g);
  second = sum_of_products(by.beta2, second, by.rest2, _mm256_mul_ps(g, g));
  const __m256 root = _mm256_add_ps(_mm256_sqrt_ps(second), by.eps);
  const __m256 change = _mm256_div_ps(_mm256_mul_ps(by.step_size, first), root);
  _mm256_storeu_ps(parameters, _mm256_sub_ps(_mm256_mul_ps(by.kept, parameter), change));
}

// The processor itself notices too late that what it reads goes on.
inline void fetch_ahead(const float* block) {
  constexpr int64_t kLineNumel = 16;
  for (int64_t i = 0; i < kBlock; i += kLineNumel) {
    _mm_prefetch(reinterpret_cast<const char*>(block + kAheadNumel + i), _MM_HINT_T0);
  }
}

template <bool kAsIs>
void step_blocks(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                 const Block8Moments& moments) {
  const Numbers by(numbers);
  alignas(32) float first[kBlock], second[kBlock];
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kBlock;
    fetch_ahead(parameters + begin);
    fetch_ahead(gradients + begin);
    int8_t* first_codes = moments.first + begin;
    uint8_t* second_codes = moments.second + begin;
    const __m256 first_scale = _mm256_broadcast_ss(moments.first_scales + block);
    const __m256 second_scale = _mm256_broadcast_ss(moments.second_scales + block);
    // As integers, in whose order NaN is the largest.
    __m256i first_largest = _mm256_castps_si256(_mm256_set1_ps(kBlock8LeastScale)), second_largest = first_largest;
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      __m256 first_lanes = unpacked(first_codes + i, first_scale);
      __m256 second_lanes = unpacked(second_codes + i, second_scale);
      step_lanes<kAsIs>(by, parameters + begin + i, gradients + begin + i, first_lanes, second_lanes);
      _mm256_store_ps(first + i, first_lanes);
      _mm256_store_ps(second + i, second_lanes);
      first_largest = _mm256_max_epi32(first_largest, without_sign(first_lanes));
      second_largest = _mm256_max_epu32(second_largest, _mm256_castps_si256(second_lanes));
    }
    const __m256 first_next = largest_of(first_largest), second_next = largest_of(without_sign(second_largest));
    _mm_store_ss(moments.first_scales + block, _mm256_castps256_ps128(first_next));
    _mm_store_ss(moments.second_scales + block, _mm256_castps256_ps128(second_next));
    pack_block(kBlock8Signed, first, first_next, first_codes);
    pack_block(kBlock8Unsigned, second, second_next, second_codes);
  }
}

}  // namespace

void block8_adam_avx2(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                      const Block8Moments& moments) {
  const bool as_is = numbers.sign == 1 && numbers.added_decay == 0;
  (as_is ? step_blocks<true> : step_blocks<false>)(numbers, parameters, gradients, blocks, moments);
}

}  // namespace fsdp::optim
