#include "collectives/ordered_sum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace fsdp::collectives {

namespace {

using layout::Range;

// 16 KiB of the sum: it and four addends stay in the first-level cache while more than four are added.
constexpr int64_t kBlockNumel = 4096;

// The additions of one pass over memory. A pass reads the sum only when it holds something.
enum class Start { Stored, Held };

template <Start start>
void add_one(float* __restrict sum, const float* a, int64_t numel) {
  if constexpr (start == Start::Stored) {
    std::memcpy(sum, a, numel * sizeof(float));
  } else {
    for (int64_t i = 0; i < numel; ++i) sum[i] += a[i];
  }
}

template <Start start>
void add_two(float* __restrict sum, const float* a, const float* b, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) sum[i] = (start == Start::Held ? sum[i] + a[i] : a[i]) + b[i];
}

template <Start start>
void add_three(float* __restrict sum, const float* a, const float* b, const float* c, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) sum[i] = ((start == Start::Held ? sum[i] + a[i] : a[i]) + b[i]) + c[i];
}

template <Start start>
void add_four(float* __restrict sum, const float* a, const float* b, const float* c, const float* d, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) sum[i] = (((start == Start::Held ? sum[i] + a[i] : a[i]) + b[i]) + c[i]) + d[i];
}

// The first one to four of `from`, each read at `at`.
template <Start start>
size_t add_some(float* sum, std::span<const float* const> from, int64_t at, int64_t numel) {
  switch (from.size()) {
    case 1:
      add_one<start>(sum, from[0] + at, numel);
      return 1;
    case 2:
      add_two<start>(sum, from[0] + at, from[1] + at, numel);
      return 2;
    case 3:
      add_three<start>(sum, from[0] + at, from[1] + at, from[2] + at, numel);
      return 3;
    default:
      add_four<start>(sum, from[0] + at, from[1] + at, from[2] + at, from[3] + at, numel);
      return 4;
  }
}

void add_block(float* sum, bool held, std::span<const float* const> from, int64_t at, int64_t numel) {
  while (!from.empty()) {
    size_t added = held ? add_some<Start::Held>(sum + at, from, at, numel)  //
                        : add_some<Start::Stored>(sum + at, from, at, numel);
    held = true;
    from = from.subspan(added);
  }
}

void add_run(float* sum, bool held, std::span<const float* const> from, Range run) {
  for (int64_t at = run.begin; at < run.end; at += kBlockNumel)
    add_block(sum, held, from, at, std::min(kBlockNumel, run.end - at));
}

bool same_pattern(size_t a, size_t b, const std::vector<uint8_t>& held, std::span<const Addend> addends) {
  return !held[a] == !held[b] && std::all_of(addends.begin(), addends.end(), [&](const Addend& addend) {
    return !addend.present[a] == !addend.present[b];
  });
}

std::vector<const float*> present_values(size_t segment, std::span<const Addend> addends) {
  std::vector<const float*> values;
  for (const Addend& addend : addends)
    if (addend.present[segment]) values.push_back(addend.values);
  return values;
}

// The first segment at or after `segment` that has elements.
size_t skip_empty(size_t segment, std::span<const Range> segments) {
  while (segment < segments.size() && segments[segment].numel() == 0) ++segment;
  return segment;
}

}  // namespace

void add_in_order(float* sum, std::vector<uint8_t>& held, std::span<const Range> segments,
                  std::span<const Addend> addends) {
  // Neighbours that are treated alike make one run, so that the usual case, all ranks have all gradients, is one pass.
  for (size_t first = skip_empty(0, segments); first < segments.size();) {
    Range run = segments[first];
    size_t next = skip_empty(first + 1, segments);
    for (; next < segments.size() && same_pattern(first, next, held, addends); next = skip_empty(next + 1, segments))
      run.end = segments[next].end;
    add_run(sum, held[first], present_values(first, addends), run);
    first = next;
  }
  for (size_t segment = 0; segment < segments.size(); ++segment)
    for (const Addend& addend : addends) held[segment] |= addend.present[segment] != 0;
}

}  // namespace fsdp::collectives
