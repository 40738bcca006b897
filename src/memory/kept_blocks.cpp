#include "memory/kept_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "memory/pages.h"

namespace fsdp::memory {

namespace {

constexpr size_t kUnit = 64 << 10;    // sizes are multiples of it
constexpr size_t kPartsInExcess = 8;  // a kept block may be larger than what is asked for by one part in so many
constexpr size_t kPartsKept = 4;      // one part in so many of the most in use

size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

}  // namespace

KeptBlocks::~KeptBlocks() { keep_at_most(0); }

void* KeptBlocks::take(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() - kUnit) return nullptr;
  const size_t size = std::max(kUnit, rounded(bytes));
  const std::lock_guard lock(mutex_);
  void* block = take_kept(size);
  if (block == nullptr) block = map(size);
  bytes_.most_in_use = std::max(bytes_.most_in_use, bytes_.in_use);
  return block;
}

void* KeptBlocks::take_kept(size_t bytes) {
  const auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end() || found->first - bytes > bytes / kPartsInExcess) return nullptr;
  const Block block = *found->second;
  kept_.erase(found->second);
  by_size_.erase(found);
  bytes_.kept -= block.bytes;
  bytes_.in_use += block.bytes;
  in_use_.emplace(block.begin, block.bytes);
  return block.begin;
}

void* KeptBlocks::map(size_t bytes) {
  const size_t in_use = bytes_.in_use + bytes;
  keep_at_most(bytes_.most_in_use > in_use ? bytes_.most_in_use - in_use : 0);
  void* const block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    if (bytes_.kept == 0) return nullptr;
    keep_at_most(0);
    return map(bytes);
  }
  in_use_.emplace(block, bytes);
  bytes_.in_use = in_use;
  return block;
}

void KeptBlocks::give_back(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(block);
  const Block freed{block, found->second};
  in_use_.erase(found);
  bytes_.in_use -= freed.bytes;
  const size_t most = bytes_.most_in_use / kPartsKept;
  if (freed.bytes > most) return unmap(freed);
  by_size_.emplace(freed.bytes, kept_.insert(kept_.end(), freed));
  bytes_.kept += freed.bytes;
  keep_at_most(most);
}

void KeptBlocks::keep_at_most(size_t bytes) {
  while (bytes_.kept > bytes) drop(kept_.begin());
}

void KeptBlocks::drop(Blocks::iterator block) {
  const auto [begin, end] = by_size_.equal_range(block->bytes);
  by_size_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == block; }));
  bytes_.kept -= block->bytes;
  unmap(*block);
  kept_.erase(block);
}

// Where the process has as many mappings as it may, the address stays, without memory.
void KeptBlocks::unmap(const Block& block) {
  if (munmap(block.begin, block.bytes) != 0) madvise(block.begin, block.bytes, MADV_DONTNEED);
}

bool KeptBlocks::has(void* block) const {
  const auto is_at_page = [](void* address) { return reinterpret_cast<uintptr_t>(address) % kPageBytes == 0; };
  if (!is_at_page(block)) return false;  // so that most others need no lock
  const std::lock_guard lock(mutex_);
  return in_use_.contains(block);
}

KeptBlocks::Bytes KeptBlocks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace fsdp::memory
