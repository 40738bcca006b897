#include "device/pinned.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

#include "device/accesses.h"
#include "device/arena.h"

namespace fsdp::testing::device {

namespace {

struct Held {
  Range pages;
  int protection = PROT_NONE;
  CopyUnderWay copy;
};

struct PinnedState {
  std::mutex mutex;
  std::map<uintptr_t, size_t> blocks;     // those in use, by where they begin
  std::multimap<size_t, uintptr_t> free;  // by their size
  std::vector<Held> held;
};

PinnedState& pinned_state() {
  static auto* all = new PinnedState;
  return *all;
}

uintptr_t up(uintptr_t place) { return (place + kPageBytes - 1) / kPageBytes * kPageBytes; }

void protect(const Range& pages, int protection) {
  if (pages.begin < pages.end) mprotect(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, protection);
}

// The pages that hold bytes of this range alone.
Range pages_of(const PinnedState& s, const Range& range) {
  auto after = s.blocks.upper_bound(range.begin);
  uintptr_t end = range.end / kPageBytes * kPageBytes;
  if (after != s.blocks.begin()) {
    const auto& [begin, bytes] = *std::prev(after);
    if (range.end == begin + bytes) end = up(range.end);
  }
  return {up(range.begin), end};
}

// Lifts the protection of `gone`, but for those pages that another copy holds.
void lift(PinnedState& s, const std::vector<Held>& gone) {
  for (const Held& one : gone) protect(one.pages, PROT_READ | PROT_WRITE);
  if (gone.empty()) return;
  for (const Held& one : s.held) protect(one.pages, one.protection);
}

template <typename Over>
void release_held(PinnedState& s, Over&& is_over) {
  std::vector<Held> gone;
  std::erase_if(s.held, [&](const Held& one) {
    if (!is_over(one)) return false;
    gone.push_back(one);
    return true;
  });
  lift(s, gone);
}

bool overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &give_back, c10::kCPU};
    PinnedState& s = pinned_state();
    std::lock_guard lock(s.mutex);
    void* pointer = nullptr;
    if (const auto found = s.free.find(up(bytes)); found != s.free.end()) {
      pointer = reinterpret_cast<void*>(found->second);
      s.free.erase(found);
    } else {
      pointer = pinned_arena().take(bytes);
    }
    s.blocks[reinterpret_cast<uintptr_t>(pointer)] = bytes;
    return {pointer, pointer, &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  // As CUDA's allocator, it waits for the copies under way before it gives the block out again.
  static void give_back(void* pointer) {
    if (pointer == nullptr) return;
    const auto begin = reinterpret_cast<uintptr_t>(pointer);
    PinnedState& s = pinned_state();
    Range range{begin, begin};
    {
      std::lock_guard lock(s.mutex);
      range.end += s.blocks.at(begin);
    }
    forget_all_accesses(range);
    std::lock_guard lock(s.mutex);
    release_held(s, [&](const Held& one) { return overlap(one.pages, {begin, up(range.end)}); });
    s.blocks.erase(begin);
    s.free.emplace(up(range.end - begin), begin);
  }
};

}  // namespace

c10::Allocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

void hold_pinned(const Range& range, bool written, CopyUnderWay copy) {
  if (!is_pinned(reinterpret_cast<const void*>(range.begin))) return;
  PinnedState& s = pinned_state();
  std::lock_guard lock(s.mutex);
  const Range pages = pages_of(s, range);
  if (pages.begin >= pages.end) return;
  s.held.push_back({pages, written ? PROT_NONE : PROT_READ, std::move(copy)});
  // The strictest of those that hold a page counts.
  for (const int protection : {PROT_READ, PROT_NONE})
    for (const Held& one : s.held)
      if (one.protection == protection && overlap(one.pages, pages)) protect(one.pages, protection);
}

void release_pinned(const std::function<bool(uint32_t stream, uint64_t time)>& is_over) {
  PinnedState& s = pinned_state();
  std::lock_guard lock(s.mutex);
  if (s.held.empty()) return;
  release_held(s, [&](const Held& one) { return is_over(one.copy.stream, one.copy.time); });
}

bool note_pinned_fault(const void* pointer) {
  if (!is_pinned(pointer)) return false;
  PinnedState& s = pinned_state();
  CopyUnderWay copy{.what = "a copy", .stream_name = "a stream"};
  {
    std::lock_guard lock(s.mutex);
    const auto place = reinterpret_cast<uintptr_t>(pointer);
    release_held(s, [&](const Held& one) {
      const bool here = overlap(one.pages, {place, place + 1});
      if (here) copy = one.copy;
      return here;
    });
  }
  note_host_access(pointer, copy.what, copy.stream_name);
  return true;
}

}  // namespace fsdp::testing::device
