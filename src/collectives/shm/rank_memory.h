// A rank's memory as it lies in this process.
//
// It consists of segments: a file each, of which the rank makes a further one when the others are full. So what is
// reserved follows what the model needs, and nothing that was handed out ever moves. An address is a segment's number
// and the offset in it, and means the same in every process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fsdp::collectives::shm {

inline constexpr int kOffsetBits = 48;
inline constexpr size_t kMostSegments = 128;  // OwnMemory makes them longer and longer

struct Address {
  size_t segment = 0;
  size_t offset = 0;

  static Address of(uint64_t packed) { return {packed >> kOffsetBits, packed & ((uint64_t{1} << kOffsetBits) - 1)}; }
  uint64_t packed() const { return uint64_t{segment} << kOffsetBits | offset; }
};

class RankMemory {
 public:
  virtual ~RankMemory() = default;
  // The bytes at an address that this rank was told. Throws Error when the memory cannot be mapped.
  virtual char* at(uint64_t address) = 0;
};

}  // namespace fsdp::collectives::shm
