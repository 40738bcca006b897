// The memory of another rank of this host, as this process has it mapped.
//
// The first segment is mapped at once; a further one when an address in it is asked for. Any thread may
// ask.
#pragma once

#include <sys/types.h>

#include <array>
#include <mutex>
#include <optional>

#include "collectives/shm/control.h"
#include "collectives/shm/rank_memory.h"
#include "memory/memory_file.h"

namespace fsdp::collectives::shm {

using memory::Access;
using memory::Mapping;
using memory::MemoryFile;

class PeerMemory final : public RankMemory {
 public:
  // `name` is how messages call the rank, `first` what it says of its first segment. Throws Error.
  PeerMemory(pid_t process, int name, const Segment& first);

  Control& control() const { return *reinterpret_cast<Control*>(mappings_[0]->base()); }
  char* at(uint64_t address) override;

 private:
  void map(size_t number, const Segment& segment);

  pid_t process_;
  int name_;
  std::mutex mutex_;                                            // guards the mappings but the first
  std::array<std::optional<Mapping>, kMostSegments> mappings_;  // by number
};

}  // namespace fsdp::collectives::shm
