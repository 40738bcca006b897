#include "memory/heap.h"

#include <iterator>

#include "base/error.h"

namespace fsdp::memory {

namespace {

size_t rounded_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

}  // namespace

Heap::Heap(size_t begin, size_t end) { gaps_.emplace(begin, end - begin); }

std::optional<size_t> Heap::take(size_t bytes) {
  const size_t length = rounded_up(bytes, kPageBytes);
  const size_t alignment = length >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    const auto [begin, available] = *gap;
    const size_t offset = rounded_up(begin, alignment), end = begin + available;
    if (offset > end || end - offset < length) continue;
    gaps_.erase(gap);
    if (offset > begin) gaps_.emplace(begin, offset - begin);
    if (end > offset + length) gaps_.emplace(offset + length, end - offset - length);
    taken_.emplace(offset, length);
    return offset;
  }
  return std::nullopt;
}

size_t Heap::give_back(size_t offset) {
  const auto range = taken_.find(offset);
  FSDP_INVARIANT(range != taken_.end(), "nothing was taken at {}", offset);
  const size_t length = range->second;
  taken_.erase(range);
  auto gap = gaps_.emplace(offset, length).first;
  if (const auto next = std::next(gap); next != gaps_.end() && next->first == offset + length) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == offset) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
  }
  return length;
}

}  // namespace fsdp::memory
