// Addresses of a device, or of pinned memory, with two views of the same bytes: tensors have addresses of the first,
// which the host cannot use freely; kernels use the second.
//
// Each is made when it is first used, so that ranks that are forked before have one each. Never destroyed: tensors
// outlive most things.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fsdp::testing::device {

class Arena {
 public:
  // `protection` is that of the first view (mprotect).
  Arena(const char* name, int protection);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // New addresses, which begin a page.
  char* take(size_t bytes);
  bool contains(const void* pointer) const noexcept {
    const auto place = reinterpret_cast<uintptr_t>(pointer);
    return place >= begin_ && place < begin_ + kBytes;
  }
  // The place of these bytes in the second view.
  char* alias(const void* pointer) const noexcept { return alias_ + (reinterpret_cast<uintptr_t>(pointer) - begin_); }
  // The pages within hold no memory until they are written again.
  void discard(const void* pointer, size_t bytes);

 private:
  static constexpr size_t kBytes = size_t{64} << 30;  // addresses; memory is taken when it is written

  int file_;
  uintptr_t begin_;
  char* alias_;
  std::atomic<size_t> taken_{0};
};

constexpr size_t kPageBytes = 4096;
constexpr int kMostDevices = 8;

Arena& arena_of(c10::DeviceIndex device);
Arena& pinned_arena();
// The arena that has the address; null for other memory of the host. For signal handlers as well.
Arena* arena_with(const void* pointer) noexcept;
bool is_pinned(const void* pointer) noexcept;
bool is_on_device(const void* pointer) noexcept;

}  // namespace fsdp::testing::device
