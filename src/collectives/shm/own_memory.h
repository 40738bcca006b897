// The memory that one rank shows to its peers: its Control, and what it allocates behind it.
//
// Memory is granted as it is allocated, and address space reserved a segment at a time: the further ones are a quarter
// of what there is already, or as long as is asked for. Allocations never move. Any thread allocates and frees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "collectives/shm/control.h"
#include "collectives/shm/rank_memory.h"
#include "memory/heap.h"
#include "memory/memory_file.h"

namespace fsdp::collectives::shm {

using memory::Access;
using memory::Heap;
using memory::kHugePageBytes;
using memory::kPageBytes;
using memory::Mapping;
using memory::MemoryFile;

class OwnMemory final : public RankMemory {
 public:
  OwnMemory();

  Control& control() const { return *reinterpret_cast<Control*>(parts_[0]->mapping.base()); }
  const Segment& first_segment() const { return control().segments[0]; }  // how peers find the others
  size_t reserved() const { return reserved_; }

  // The address of `bytes` of zeros. Throws Error when the system has no more.
  uint64_t allocate(size_t bytes);
  void free(uint64_t address) noexcept;
  char* at(uint64_t address) override;
  // The address of bytes that lie in what was allocated.
  uint64_t address_of(const void* begin, size_t bytes) const;

 private:
  struct Part {
    explicit Part(size_t bytes) : file(MemoryFile::create()), mapping(file, bytes, Access::Write), heap(0, bytes) {}

    MemoryFile file;
    Mapping mapping;
    Heap heap;
  };

  Part& add_part(size_t bytes);
  uint64_t grant(size_t number, size_t offset, size_t bytes);

  mutable std::mutex mutex_;
  std::array<std::unique_ptr<Part>, kMostSegments> parts_;  // by the segments' numbers
  size_t count_ = 0;
  size_t reserved_ = 0;
};

}  // namespace fsdp::collectives::shm
