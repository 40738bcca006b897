// The memory that one rank shows to its peers: its Control, and what it allocates behind it.
//
// Address space is reserved once and never moves; memory is granted as it is allocated. Any thread allocates and frees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "collectives/shm/control.h"
#include "collectives/shm/heap.h"
#include "collectives/shm/memory_file.h"

namespace fsdp::collectives::shm {

class OwnMemory {
 public:
  // `reserved` bytes at most.
  explicit OwnMemory(size_t reserved);

  const MemoryFile& file() const { return file_; }
  char* base() const { return mapping_.base(); }
  size_t reserved() const { return mapping_.bytes(); }
  Control& control() const { return *reinterpret_cast<Control*>(base()); }

  // The offset of `bytes` of zeros. Throws Error when the system has no more.
  uint64_t allocate(size_t bytes);
  void free(uint64_t offset) noexcept;

 private:
  MemoryFile file_;
  Mapping mapping_;
  std::mutex mutex_;
  Heap heap_;
};

}  // namespace fsdp::collectives::shm
