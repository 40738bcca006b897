// Compiled for AVX2, and so without any header whose inline functions others share.
#include <immintrin.h>

#include <cstdint>

#include "optim/block8_adam.h"
#include "optim/block8_kernels.h"
#include "optim/block8_map.h"

namespace fsdp::optim {

namespace {

constexpr int64_t kBlock = 64, kLanes = 8;

inline __m256i bits_at(const float* values) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)); }

inline __m256i without_sign(__m256i bits) { return _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)); }

inline __m256i swapped_halves(__m256i bits) { return _mm256_permute2x128_si256(bits, bits, 1); }

// As integers, in whose order NaN is the largest. In every lane.
inline __m256 largest_of(const float* values) {
  __m256i most = _mm256_setzero_si256();
  for (int64_t i = 0; i < kBlock; i += kLanes) most = _mm256_max_epi32(most, without_sign(bits_at(values + i)));
  most = _mm256_max_epi32(most, swapped_halves(most));
  most = _mm256_max_epi32(most, _mm256_shuffle_epi32(most, 0b01001110));
  most = _mm256_max_epi32(most, _mm256_shuffle_epi32(most, 0b10110001));
  return _mm256_castsi256_ps(most);
}

inline __m256i places_of(const uint32_t* entries, __m256 ratios) {
  const __m256i lowest = _mm256_set1_epi32(kBlock8LowestKey), highest = _mm256_set1_epi32(kBlock8HighestKey);
  const __m256i bits = _mm256_castps_si256(ratios), key = _mm256_srli_epi32(bits, 16);
  const __m256i known = _mm256_max_epi32(_mm256_min_epi32(key, highest), lowest);
  const __m256i entry =
      _mm256_i32gather_epi32(reinterpret_cast<const int*>(entries), _mm256_sub_epi32(known, lowest), 4);
  // Of what is not finite too: such a ratio's key is above all others.
  const __m256i low = _mm256_and_si256(bits, _mm256_srli_epi32(_mm256_cmpgt_epi32(highest, key), 16));
  return _mm256_srli_epi32(_mm256_add_epi32(entry, low), 16);
}

// To codes of the value's sign.
inline __m256i codes_of(__m256i places, __m256i value_bits, const int8_t*) {
  return _mm256_sign_epi32(places, value_bits);  // of 0 the place is 0
}

// What is not 0 has not the place 0.
inline __m256i codes_of(__m256i places, __m256i value_bits, const uint8_t*) {
  const __m256i is_zero = _mm256_cmpeq_epi32(without_sign(value_bits), _mm256_setzero_si256());
  return _mm256_max_epi32(places, _mm256_andnot_si256(is_zero, _mm256_set1_epi32(1)));
}

inline __m256i narrow(__m256i a, __m256i b, const int8_t*) { return _mm256_packs_epi16(a, b); }
inline __m256i narrow(__m256i a, __m256i b, const uint8_t*) { return _mm256_packus_epi16(a, b); }

template <typename Code>
inline void pack_block(const uint32_t* entries, const float* values, Code* codes, float* scale) {
  const __m256 largest = largest_of(values);
  _mm_store_ss(scale, _mm256_castps256_ps128(largest));
  // 1 where it is not above 0, NaN too
  const __m256 above = _mm256_cmp_ps(largest, _mm256_setzero_ps(), _CMP_GT_OQ);
  const __m256 divisor = _mm256_blendv_ps(_mm256_set1_ps(1), largest, above);
  const auto coded = [&](const float* from) {
    const __m256i bits = bits_at(from);
    const __m256 ratios = _mm256_div_ps(_mm256_castsi256_ps(without_sign(bits)), divisor);
    return codes_of(places_of(entries, ratios), bits, codes);
  };
  for (int64_t i = 0; i < kBlock; i += 4 * kLanes) {
    const __m256i low = _mm256_packs_epi32(coded(values + i), coded(values + i + kLanes));
    const __m256i high = _mm256_packs_epi32(coded(values + i + 2 * kLanes), coded(values + i + 3 * kLanes));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // narrowing goes by halves
    const __m256i found = _mm256_permutevar8x32_epi32(narrow(low, high, codes), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), found);
  }
}

template <typename Code>
inline __m256 unpacked(const Block8Map& map, const Code* codes, __m256 scale) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_mul_ps(_mm256_i32gather_ps(map.values, _mm256_cvtepu8_epi32(bytes), 4), scale);
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
        root_factor(_mm256_set1_ps(of.root_factor)),
        eps(_mm256_set1_ps(of.eps)),
        step_size(_mm256_set1_ps(of.step_size)) {}
  __m256 sign, added_decay, kept, beta1, rest1, beta2, rest2, root_factor, eps, step_size;
};

inline __m256 sum_of_products(__m256 a, __m256 b, __m256 c, __m256 d) {
  return _mm256_add_ps(_mm256_mul_ps(a, b), _mm256_mul_ps(c, d));
}

// Eight elements; the moments are given, and changed.
inline void step_lanes(const Numbers& by, float* parameters, const float* gradients, __m256& first, __m256& second) {
  const __m256 parameter = _mm256_loadu_ps(parameters);
  const __m256 g = sum_of_products(by.sign, _mm256_loadu_ps(gradients), by.added_decay, parameter);
  first = sum_of_products(by.beta1, first, by.rest1, g);
  second = sum_of_products(by.beta2, second, by.rest2, _mm256_mul_ps(g, g));
  const __m256 root = _mm256_add_ps(_mm256_mul_ps(by.root_factor, _mm256_sqrt_ps(second)), by.eps);
  const __m256 change = _mm256_div_ps(_mm256_mul_ps(by.step_size, first), root);
  _mm256_storeu_ps(parameters, _mm256_sub_ps(_mm256_mul_ps(by.kept, parameter), change));
}

}  // namespace

void block8_adam_avx2(const AdamNumbers& numbers, float* parameters, const float* gradients, int64_t blocks,
                      const Block8Moments& moments, const Block8Map& signed_map, const Block8Map& unsigned_map) {
  const Numbers by(numbers);
  alignas(32) float first[kBlock], second[kBlock];
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kBlock;
    int8_t* first_codes = moments.first + begin;
    uint8_t* second_codes = moments.second + begin;
    const __m256 first_scale = _mm256_broadcast_ss(moments.first_scales + block);
    const __m256 second_scale = _mm256_broadcast_ss(moments.second_scales + block);
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      __m256 first_lanes = unpacked(signed_map, first_codes + i, first_scale);
      __m256 second_lanes = unpacked(unsigned_map, second_codes + i, second_scale);
      step_lanes(by, parameters + begin + i, gradients + begin + i, first_lanes, second_lanes);
      _mm256_store_ps(first + i, first_lanes);
      _mm256_store_ps(second + i, second_lanes);
    }
    pack_block(signed_map.entries, first, first_codes, moments.first_scales + block);
    pack_block(unsigned_map.entries, second, second_codes, moments.second_scales + block);
  }
}

}  // namespace fsdp::optim
