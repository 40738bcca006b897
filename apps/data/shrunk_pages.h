// Memory-mapped files that become shorter while they are read.
//
// To read a mapped page that lies past its file's end raises SIGBUS, which kills the process (mmap(2)), and no look at
// the file beforehand rules it out. So the pages of mappings that are watched here turn to zeros instead, and the
// mapping is marked. A reader checks the mark afterwards, and if it is set, discards the bytes. Any other SIGBUS goes
// where it went before.
//
// The handler is installed with the first mapping, for the process and those forked from it. It looks the address up in
// a list that only grows, whose entries are used again: no lock, and nothing is allocated in it. Mappings may be
// watched, read and given up by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace data {

// A mapping in the list.
struct WatchedMapping {
  std::atomic<bool> is_taken{true};
  std::atomic<uintptr_t> begin{0}, end{0};  // equal: nothing is mapped
  std::atomic<bool> has_shrunk{false};
  WatchedMapping* next = nullptr;
};

// `memory` is mapped read-only, and stays so until the mapping is given up.
WatchedMapping* watch(const void* memory, size_t size);
void give_up(WatchedMapping* mapping);

}  // namespace data
