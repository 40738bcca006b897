#include "collectives/shm/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

Counter* counters_in(char* memory, size_t capacity) {
  FSDP_INVARIANT(std::has_single_bit(capacity), "a ring of {} bytes", capacity);
  return reinterpret_cast<Counter*>(memory);
}

char* bytes_in(char* memory, int readers) { return memory + bytes_of_ring(0, readers); }

}  // namespace

void prepare_ring(char* memory, int readers) {
  for (int i = 0; i <= readers; ++i) new (memory + i * sizeof(Counter)) Counter;
}

RingWriter::RingWriter(char* memory, size_t capacity, int readers)
    : written_(counters_in(memory, capacity)),
      read_(written_ + 1),
      readers_(readers),
      bytes_(bytes_in(memory, readers)),
      capacity_(capacity) {}

size_t RingWriter::room() const {
  uint64_t used = 0;
  for (int i = 0; i < readers_; ++i) used = std::max(used, at_ - read_[i].get());
  return capacity_ - used;
}

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
  written_->set(at_);
  published_ = at_;
  return true;
}

RingReader::RingReader(char* memory, size_t capacity, int readers, int number)
    : written_(counters_in(memory, capacity)),
      read_(counters_in(memory, capacity) + 1 + number),
      bytes_(bytes_in(memory, readers)),
      capacity_(capacity) {}

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
  read_->set(at_);
  released_ = at_;
  return true;
}

}  // namespace fsdp::collectives::shm
