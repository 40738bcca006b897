// A word before the end: an operator may write a sharded parameter though its schema says that it only reads. If full
// units are mapped read-only, as on ranks of one host, the processor stops that write with signal 11. Our handler then
// prints to stderr which operator wrote which unit, and the remedy.
//
// The handler is installed once, with the first range, and only tells: the handler that was there before, or the
// signal's default action, comes after it.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace fsdp::interpose {

// Where a unit is full. Only its owner sets it; faults of all threads are recognised.
class GuardedRange {
 public:
  // `operation` is the name of the operator that runs, if one does; it outlives this.
  GuardedRange(const std::string& unit, const std::atomic<const char*>& operation);
  ~GuardedRange();
  GuardedRange(const GuardedRange&) = delete;
  GuardedRange& operator=(const GuardedRange&) = delete;

  void set(const void* begin, size_t bytes) noexcept;
  void clear() noexcept { set(nullptr, 0); }

  struct Entry;

 private:
  Entry* entry_;
};

}  // namespace fsdp::interpose
