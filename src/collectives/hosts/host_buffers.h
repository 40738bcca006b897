// Buffers for full units that the ranks of a host share: each holds one unit while any of them reads it.
//
// Gathers are numbered, in the order that all ranks have in common. The host's first rank assigns each gather a buffer
// that all its ranks have released. If a rank needs one more at once, it allocates one. So there are as many as a rank
// holds units. Each rank then puts its parts of the unit into the buffer, and reads it when all have.
//
// Owned by a group's context; opening it is a collective of the host. One thread at a time, as the ranks that it is
// called with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <list>
#include <vector>

#include "collectives/shm/context.h"
#include "collectives/shm/control.h"
#include "collectives/shm/ranks.h"

namespace fsdp::collectives::hosts {

inline constexpr size_t kMostBuffers = 256;

// The part of a rank's control that is about the buffers. Gathers count from 1.
struct BufferControl {
  shm::Counter begun;                   // the rank has begun the gathers up to this one
  shm::Counter released[kMostBuffers];  // by buffer: the last gather in it that the rank has ended
  shm::Counter filled[kMostBuffers];    // by buffer: the last gather whose parts of this rank are there
  // The first rank's: gathers up to `placed` have a buffer. Both are written before it says so.
  shm::Counter placed;
  uint64_t buffer_of[kMostBuffers] = {};   // by the gathers' numbers, of which the last ones are kept
  uint64_t address_of[kMostBuffers] = {};  // by buffer: in the first rank's memory
};

// One gather, from `begin` to `release`. Stays where it is.
class BufferedGather {
 public:
  virtual ~BufferedGather() = default;
  // It has its buffer. From whichever thread makes the ranks advance; throws nothing.
  virtual void is_placed(char* buffer) = 0;

 private:
  friend class HostBuffers;
  uint64_t number_ = 0;
  int buffer_ = -1;  // none yet
};

class HostBuffers final : public shm::Work {
 public:
  explicit HostBuffers(shm::SharedMemoryContext& shared);
  ~HostBuffers() override { ranks().withdraw(*this); }

  // Units of so many bytes will be gathered into them: the same on every rank, before their first gather.
  void hold(int64_t bytes) { buffer_bytes_ = std::max(buffer_bytes_, bytes); }
  // Bytes of the buffers that this rank has allocated.
  int64_t bytes() const;

  void begin(BufferedGather& gather);
  // Throws what kept the buffers from being made.
  bool placed(const BufferedGather& gather) const;
  // True if this rank of the host has yet to do something before the gather can have a buffer.
  bool keeps_waiting(const BufferedGather& gather, int rank) const;
  // This rank's parts are there. From any thread.
  void fill(const BufferedGather& gather);
  bool filled(const BufferedGather& gather, int rank) const;
  // This rank reads it no more, or never will.
  void release(BufferedGather& gather);

  bool advance() override;

 private:
  shm::Ranks& ranks() const { return shared_->ranks(); }
  BufferControl& own() const { return *controls_[ranks().rank()]; }
  bool place_waiting();
  bool place(uint64_t number);
  bool has_released(int rank, size_t buffer) const {
    return controls_[rank]->released[buffer].get() >= assigned_[buffer];
  }
  bool is_free(size_t buffer) const;
  bool needs_one_more(uint64_t number) const;
  void allocate(size_t buffer);

  shm::SharedMemoryContext* shared_;
  std::vector<BufferControl*> controls_;  // by rank
  int64_t buffer_bytes_ = 0;
  std::list<BufferedGather*> waiting_;  // in their order
  uint64_t begun_ = 0;
  std::exception_ptr failure_;  // of what `advance` did
  // The first rank's, by buffer: the gather that it holds, and its length.
  std::vector<uint64_t> assigned_;
  std::vector<int64_t> allocated_bytes_;
};

}  // namespace fsdp::collectives::hosts
