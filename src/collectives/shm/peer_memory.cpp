#include "collectives/shm/peer_memory.h"

#include "base/error.h"

namespace fsdp::collectives::shm {

PeerMemory::PeerMemory(pid_t process, int name, const Segment& first) : process_(process), name_(name) {
  map(0, first);
}

char* PeerMemory::at(uint64_t address) {
  const auto [number, offset] = Address::of(address);
  FSDP_INVARIANT(number < kMostSegments, "rank {} has no memory at {:#x}", name_, address);
  std::lock_guard lock(mutex_);
  if (!mappings_[number]) map(number, control().segments[number]);
  FSDP_INVARIANT(offset < mappings_[number]->bytes(), "rank {} has no memory at {:#x}", name_, address);
  return mappings_[number]->base() + offset;
}

void PeerMemory::map(size_t number, const Segment& segment) {
  const MemoryFile file = MemoryFile::open(process_, segment.file, name_);
  mappings_[number].emplace(file, segment.bytes, Access::Write);
}

}  // namespace fsdp::collectives::shm
