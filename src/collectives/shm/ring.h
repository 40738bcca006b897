// A ring of bytes from one rank to another, in memory that both have mapped.
//
// One thread writes, one reads, and neither waits: bytes that do not fit, or are not there yet, are left for the next
// call. Two counters say how many bytes were written and read since the beginning; each has one writer. The bytes
// before `written` belong to the reader, those from `read` on that are not written to the writer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/shm/control.h"

namespace fsdp::collectives::shm {

// Lies before the ring's bytes; zero at first.
struct RingCounters {
  Counter written;
  Counter read;
};

constexpr size_t bytes_of_ring(size_t capacity) { return sizeof(RingCounters) + capacity; }

class RingWriter {
 public:
  // `memory` has bytes_of_ring(capacity); `capacity` is a power of two.
  RingWriter(char* memory, size_t capacity);

  size_t room() const { return capacity_ - (at_ - counters_->read.get()); }
  // Writes as many of the bytes as there is room for, and returns how many. `from` null: they may have any value.
  size_t put(const char* from, size_t bytes);
  // Shows the reader what was put. Returns whether there was anything new.
  bool publish();

 private:
  RingCounters* counters_;
  char* bytes_;
  size_t capacity_;
  uint64_t at_ = 0;         // bytes put since the beginning
  uint64_t published_ = 0;  // of these
};

class RingReader {
 public:
  RingReader(char* memory, size_t capacity);

  size_t filled() const { return counters_->written.get() - at_; }
  // Reads as many bytes as there are, at most `bytes`, and returns how many. `to` null: they are dropped.
  size_t take(char* to, size_t bytes);
  // Gives the writer the room of what was taken. Returns whether there was any.
  bool release();

 private:
  RingCounters* counters_;
  const char* bytes_;
  size_t capacity_;
  uint64_t at_ = 0;        // bytes taken since the beginning
  uint64_t released_ = 0;  // of these
};

}  // namespace fsdp::collectives::shm
