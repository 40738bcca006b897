// Finds the end of a backward: the outermost one, when backward passes are nested by activation checkpointing.
//
// Every touch and every gradient is noted. Each graph task in which something was noted gets one callback at its end;
// the backward is over when none of the noted tasks is open. Threads: the owner serialises all calls.
#pragma once

#include <memory>
#include <set>
#include <thread>

#include "interpose/listener.h"

namespace fsdp::interpose {

// Whether the calling thread runs a backward now.
bool in_backward();

class BackwardWatch {
 public:
  explicit BackwardWatch(std::shared_ptr<Link> link) : link_(std::move(link)) {}

  // Something happened on this thread. Returns true when an earlier backward of this thread ended without its callback:
  // it threw.
  bool note();
  // The listener was told that `task` is over. Returns true when the whole backward is.
  bool close(int task);
  bool open() const { return !tasks_.empty(); }

 private:
  std::shared_ptr<Link> link_;
  std::set<int> tasks_;
  std::thread::id thread_;
  int last_ = -1;
};

}  // namespace fsdp::interpose
