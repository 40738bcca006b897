#include "device/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <mutex>

#include "device/fork_check.h"

namespace fsdp::testing::device {

namespace {

std::array<std::atomic<Arena*>, kMostDevices> device_arenas{};
std::atomic<Arena*> pinned{nullptr};
std::mutex making_arenas;

char* map_view(int file, size_t bytes, int protection) {
  void* view = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  TORCH_CHECK(view != MAP_FAILED, "the tests' device: no addresses for a view of ", bytes, " bytes");
  madvise(view, bytes, MADV_DONTDUMP);
  return static_cast<char*>(view);
}

Arena& made(std::atomic<Arena*>& place, const char* name, int protection) {
  if (Arena* arena = place.load(std::memory_order_acquire)) return *arena;
  std::lock_guard lock(making_arenas);
  if (place.load() == nullptr) {
    note_use();
    place.store(new Arena(name, protection), std::memory_order_release);
  }
  return *place.load();
}

}  // namespace

Arena::Arena(const char* name, int protection) : file_(memfd_create(name, MFD_CLOEXEC)) {
  TORCH_CHECK(file_ >= 0 && ftruncate(file_, static_cast<off_t>(kBytes)) == 0, "the tests' device: no memory file");
  begin_ = reinterpret_cast<uintptr_t>(map_view(file_, kBytes, protection));
  alias_ = map_view(file_, kBytes, PROT_READ | PROT_WRITE);
}

char* Arena::take(size_t bytes) {
  const size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const size_t place = taken_.fetch_add(rounded);
  TORCH_CHECK(place + rounded <= kBytes, "the tests' device: its ", kBytes, " addresses are used up");
  return reinterpret_cast<char*>(begin_) + place;
}

void Arena::discard(const void* pointer, size_t bytes) { madvise(alias(pointer), bytes, MADV_REMOVE); }

Arena& arena_of(c10::DeviceIndex device) {
  return made(device_arenas.at(static_cast<size_t>(device)), "fsdp-test-device", PROT_NONE);
}

Arena& pinned_arena() { return made(pinned, "fsdp-test-pinned", PROT_READ | PROT_WRITE); }

Arena* arena_with(const void* pointer) noexcept {
  for (const auto& place : device_arenas) {
    Arena* arena = place.load(std::memory_order_acquire);
    if (arena != nullptr && arena->contains(pointer)) return arena;
  }
  return is_pinned(pointer) ? pinned.load() : nullptr;
}

bool is_pinned(const void* pointer) noexcept {
  const Arena* arena = pinned.load(std::memory_order_acquire);
  return arena != nullptr && arena->contains(pointer);
}

bool is_on_device(const void* pointer) noexcept { return arena_with(pointer) != nullptr && !is_pinned(pointer); }

}  // namespace fsdp::testing::device
