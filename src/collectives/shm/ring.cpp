#include "collectives/shm/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

RingCounters* counters_in(char* memory, size_t capacity) {
  FSDP_INVARIANT(std::has_single_bit(capacity), "a ring of {} bytes", capacity);
  return reinterpret_cast<RingCounters*>(memory);
}

}  // namespace

RingWriter::RingWriter(char* memory, size_t capacity)
    : counters_(counters_in(memory, capacity)), bytes_(memory + sizeof(RingCounters)), capacity_(capacity) {}

size_t RingWriter::put(const char* from, size_t bytes) {
  bytes = std::min(bytes, room());
  if (from != nullptr && bytes > 0) {
    const size_t begin = at_ & (capacity_ - 1), first = std::min(bytes, capacity_ - begin);
    std::memcpy(bytes_ + begin, from, first);
    if (first < bytes) std::memcpy(bytes_, from + first, bytes - first);
  }
  at_ += bytes;
  return bytes;
}

bool RingWriter::publish() {
  if (published_ == at_) return false;
  counters_->written.set(at_);
  published_ = at_;
  return true;
}

RingReader::RingReader(char* memory, size_t capacity)
    : counters_(counters_in(memory, capacity)), bytes_(memory + sizeof(RingCounters)), capacity_(capacity) {}

size_t RingReader::take(char* to, size_t bytes) {
  bytes = std::min(bytes, filled());
  if (to != nullptr && bytes > 0) {
    const size_t begin = at_ & (capacity_ - 1), first = std::min(bytes, capacity_ - begin);
    std::memcpy(to, bytes_ + begin, first);
    if (first < bytes) std::memcpy(to + first, bytes_, bytes - first);
  }
  at_ += bytes;
  return bytes;
}

bool RingReader::release() {
  if (released_ == at_) return false;
  counters_->read.set(at_);
  released_ = at_;
  return true;
}

}  // namespace fsdp::collectives::shm
