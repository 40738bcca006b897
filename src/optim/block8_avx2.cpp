// Compiled for AVX2, and so without any header whose inline functions others share.
#include "optim/block8_avx2.h"

#include <immintrin.h>

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
inline void pack_blocks(const uint32_t* entries, const float* values, int64_t blocks, Code* codes, float* scales) {
  for (int64_t block = 0; block < blocks; ++block) {
    pack_block(entries, values + block * kBlock, codes + block * kBlock, scales + block);
  }
}

}  // namespace

void block8_pack_avx2(const uint32_t* entries, const float* values, int64_t blocks, int8_t* codes, float* scales) {
  pack_blocks(entries, values, blocks, codes, scales);
}

void block8_pack_avx2(const uint32_t* entries, const float* values, int64_t blocks, uint8_t* codes, float* scales) {
  pack_blocks(entries, values, blocks, codes, scales);
}

void block8_unpack_avx2(const float* places, const uint8_t* codes, const float* scales, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block) {
    const __m256 scale = _mm256_broadcast_ss(scales + block);
    for (int64_t i = block * kBlock; i < (block + 1) * kBlock; i += kLanes) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
      const __m256 found = _mm256_i32gather_ps(places, _mm256_cvtepu8_epi32(bytes), 4);
      _mm256_storeu_ps(values + i, _mm256_mul_ps(found, scale));
    }
  }
}

}  // namespace fsdp::optim
