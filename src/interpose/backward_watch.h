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

class BackwardWatch {
 public:
  explicit BackwardWatch(std::shared_ptr<Link> link) : link_(std::move(link)) {}

  // What the calling thread is doing, when something happened on it.
  enum class Place {
    Outside,         // of any backward
    Inside,          // a backward
    AfterAbandoned,  // outside, and an earlier backward of this thread ended without its callback: it threw
  };
  Place note();
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
