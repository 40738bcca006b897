#include "collectives/ordered_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace fsdp::collectives {

namespace {

using layout::Range;

// 16 KiB of the sum: it and four addends stay in the first-level cache while more than four are added.
constexpr int64_t kBlockNumel = 4096;

struct BFloat16 {
  uint16_t bits;
};

float value_of(float element) { return element; }
float value_of(BFloat16 element) { return std::bit_cast<float>(uint32_t{element.bits} << 16); }
float value_of(_Float16 element) { return static_cast<float>(element); }

// A pass over memory adds up to four gradients, and reads the sum only when it holds something.
enum class Start { Stored, Held };

template <Start start, typename Element, typename... More>
void add_pass(float* __restrict sum, int64_t numel, const Element* first, const More*... more) {
  for (int64_t i = 0; i < numel; ++i) {
    float value = start == Start::Held ? sum[i] + value_of(first[i]) : value_of(first[i]);
    ((value += value_of(more[i])), ...);
    sum[i] = value;
  }
}

#ifdef __x86_64__
// Compilers do not vectorise the conversion of fp16 for this processor, and its base instructions have none: then it is
// one call per element, forty times as slow as the memory. Processors since 2012 have the instructions below, which
// give the same bits.
const bool kAddsHalvesByEights = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");

__attribute__((target("avx,f16c"))) inline __m256 eight_values(const _Float16* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

// Leaves less than eight, and returns how many it did.
template <Start start, typename... More>
__attribute__((target("avx,f16c"))) int64_t add_eights(float* __restrict sum, int64_t numel, const _Float16* first,
                                                       const More*... more) {
  int64_t i = 0;
  for (; i + 8 <= numel; i += 8) {
    __m256 value = eight_values(first + i);
    if (start == Start::Held) value = _mm256_add_ps(_mm256_loadu_ps(sum + i), value);
    ((value = _mm256_add_ps(value, eight_values(more + i))), ...);
    _mm256_storeu_ps(sum + i, value);
  }
  return i;
}
#endif

template <Start start, typename Element, typename... More>
void add_quickly(float* sum, int64_t numel, const Element* first, const More*... more) {
  int64_t done = 0;
#ifdef __x86_64__
  if constexpr (std::is_same_v<Element, _Float16>) {
    if (kAddsHalvesByEights) done = add_eights<start>(sum, numel, first, more...);
  }
#endif
  add_pass<start>(sum + done, numel - done, first + done, (more + done)...);
}

// The first one to four of `from`, each read at `at`.
template <Start start, typename Element>
size_t add_some(float* sum, std::span<const Element* const> from, int64_t at, int64_t numel) {
  switch (from.size()) {
    case 1:
      add_quickly<start>(sum, numel, from[0] + at);
      return 1;
    case 2:
      add_quickly<start>(sum, numel, from[0] + at, from[1] + at);
      return 2;
    case 3:
      add_quickly<start>(sum, numel, from[0] + at, from[1] + at, from[2] + at);
      return 3;
    default:
      add_quickly<start>(sum, numel, from[0] + at, from[1] + at, from[2] + at, from[3] + at);
      return 4;
  }
}

template <typename Element>
void add_block(float* sum, bool held, std::span<const Element* const> from, int64_t at, int64_t numel) {
  while (!from.empty()) {
    size_t added = held ? add_some<Start::Held>(sum + at, from, at, numel)  //
                        : add_some<Start::Stored>(sum + at, from, at, numel);
    held = true;
    from = from.subspan(added);
  }
}

template <typename Element>
void add_run(float* sum, bool held, std::span<const Element* const> from, Range run) {
  for (int64_t at = run.begin; at < run.end; at += kBlockNumel)
    add_block(sum, held, from, at, std::min(kBlockNumel, run.end - at));
}

// The sum takes the place of addend `own`, of which a block at a time is kept beside it.
void add_run_in_place(float* sum, std::span<const float* const> from, size_t own, Range run) {
  std::array<float, kBlockNumel> block;
  std::vector<const float*> addends(from.begin(), from.end());
  for (int64_t at = run.begin; at < run.end; at += kBlockNumel) {
    const int64_t numel = std::min(kBlockNumel, run.end - at);
    std::copy_n(sum + at, numel, block.data());
    for (size_t i = 0; i < from.size(); ++i) addends[i] = i == own ? block.data() : from[i] + at;
    add_block<float>(sum + at, /*held=*/false, addends, 0, numel);
  }
}

template <typename Element>
void add_where_it_lies(float* sum, bool held, std::span<const Element* const> from, Range run) {
  if constexpr (std::is_same_v<Element, float>) {
    const auto own = static_cast<size_t>(std::ranges::find(from, sum) - from.begin());
    if (own < from.size()) return add_run_in_place(sum, from, own, run);
  }
  add_run(sum, held, from, run);
}

bool same_pattern(size_t a, size_t b, const std::vector<uint8_t>& held, std::span<const Addend> addends) {
  return !held[a] == !held[b] && std::all_of(addends.begin(), addends.end(), [&](const Addend& addend) {
    return (addend.present[a] == kPresent) == (addend.present[b] == kPresent);
  });
}

template <typename Element>
std::vector<const Element*> present_values(size_t segment, std::span<const Addend> addends) {
  std::vector<const Element*> values;
  for (const Addend& addend : addends)
    if (addend.present[segment] == kPresent) values.push_back(static_cast<const Element*>(addend.values));
  return values;
}

// The first segment at or after `segment` that has elements.
size_t skip_empty(size_t segment, std::span<const Range> segments) {
  while (segment < segments.size() && segments[segment].numel() == 0) ++segment;
  return segment;
}

// Neighbours that are treated alike make one run, so that the usual case, all ranks have all gradients, is one pass.
template <typename Element>
void add_runs(float* sum, const std::vector<uint8_t>& held, std::span<const Range> segments,
              std::span<const Addend> addends) {
  for (size_t first = skip_empty(0, segments); first < segments.size();) {
    Range run = segments[first];
    size_t next = skip_empty(first + 1, segments);
    for (; next < segments.size() && same_pattern(first, next, held, addends); next = skip_empty(next + 1, segments))
      run.end = segments[next].end;
    const std::vector<const Element*> values = present_values<Element>(first, addends);
    add_where_it_lies<Element>(sum, held[first], values, run);
    first = next;
  }
}

}  // namespace

void add_in_order(float* sum, std::vector<uint8_t>& held, std::span<const Range> segments,
                  std::span<const Addend> addends, ElementType type) {
  switch (type) {
    case ElementType::Float32:
      add_runs<float>(sum, held, segments, addends);
      break;
    case ElementType::BFloat16:
      add_runs<BFloat16>(sum, held, segments, addends);
      break;
    case ElementType::Float16:
      add_runs<_Float16>(sum, held, segments, addends);
      break;
  }
  for (size_t segment = 0; segment < segments.size(); ++segment)
    for (const Addend& addend : addends) held[segment] |= addend.present[segment] == kPresent;
}

}  // namespace fsdp::collectives
