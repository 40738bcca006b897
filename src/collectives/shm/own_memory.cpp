#include "collectives/shm/own_memory.h"

#include <new>
#include <optional>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

constexpr size_t kControlBytes = (sizeof(Control) + kPageBytes - 1) / kPageBytes * kPageBytes;

size_t in_pages(size_t bytes) { return bytes / kPageBytes * kPageBytes; }

}  // namespace

OwnMemory::OwnMemory(size_t reserved)
    : file_(MemoryFile::create(kControlBytes + in_pages(reserved))),
      mapping_(file_, kControlBytes + in_pages(reserved), Access::Write),
      heap_(kControlBytes, mapping_.bytes()) {
  file_.grant(0, kControlBytes);
  new (base()) Control;
}

uint64_t OwnMemory::allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  const std::optional<size_t> offset = heap_.take(bytes);
  FSDP_CHECK(offset, "shm: found no {} bytes in a row in this rank's shared memory of {} bytes. Shard over more ranks.",
             bytes, reserved());
  try {
    file_.grant(*offset, bytes);
  } catch (...) {
    heap_.give_back(*offset);
    throw;
  }
  return *offset;
}

void OwnMemory::free(uint64_t offset) noexcept {
  std::lock_guard lock(mutex_);
  file_.take_back(offset, heap_.give_back(offset));
}

}  // namespace fsdp::collectives::shm
