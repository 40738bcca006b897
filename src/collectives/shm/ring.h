// A ring of bytes from one rank to one or more others, in memory that all have mapped.
//
// One thread of each rank uses it, and none waits: bytes that do not fit, or are not there yet, are left for the next
// call. Counters say how many bytes were written, and read by each reader, since the beginning; each has one writer.
// The bytes before `written` belong to the readers that have not read them, all others to the writer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/shm/control.h"

namespace fsdp::collectives::shm {

// The memory of a ring: one counter for the writer, one for each reader, all zero at first, and the bytes.
constexpr size_t bytes_of_ring(size_t capacity, int readers) { return (1 + readers) * sizeof(Counter) + capacity; }
void prepare_ring(char* memory, int readers);

class RingWriter {
 public:
  // `memory` is a prepared ring's; `capacity` is a power of two.
  RingWriter(char* memory, size_t capacity, int readers = 1);

  size_t room() const;
  // True if the reader has taken all that was put.
  bool is_read_by(int reader) const { return read_[reader].get() == at_; }
  // Writes as many of the bytes as there is room for, and returns how many. `from` null: they may have any value.
  size_t put(const char* from, size_t bytes);
  // Shows the readers what was put. Returns whether there was anything new.
  bool publish();

 private:
  Counter* written_;
  Counter* read_;  // the first of them
  int readers_;
  char* bytes_;
  size_t capacity_;
  uint64_t at_ = 0;         // bytes put since the beginning
  uint64_t published_ = 0;  // of these
};

class RingReader {
 public:
  // `number` of this reader among so many.
  RingReader(char* memory, size_t capacity, int readers = 1, int number = 0);

  size_t filled() const { return written_->get() - at_; }
  // Reads as many bytes as there are, at most `bytes`, and returns how many. `to` null: they are dropped.
  size_t take(char* to, size_t bytes);
  // Gives the writer the room of what was taken. Returns whether there was any.
  bool release();

 private:
  const Counter* written_;
  Counter* read_;
  const char* bytes_;
  size_t capacity_;
  uint64_t at_ = 0;        // bytes taken since the beginning
  uint64_t released_ = 0;  // of these
};

}  // namespace fsdp::collectives::shm
