// Finds the end of a backward: the outermost one, when backward passes are nested by activation checkpointing.
//
// Every touch and every gradient is noted. Each graph task in which something was noted gets one callback at its end;
// the backward is over when none of the noted tasks is open. Threads: the owner serialises all calls.
#pragma once

#include <torch/csrc/autograd/graph_task.h>

#include <map>
#include <memory>

#include "interpose/listener.h"

namespace fsdp::interpose {

class BackwardWatch {
 public:
  explicit BackwardWatch(std::shared_ptr<Link> link) : link_(std::move(link)) {}

  struct Note {
    bool inside = false;     // whether the calling thread runs a backward
    bool abandoned = false;  // an earlier backward threw, and its end will not be told
    bool operator==(const Note&) const = default;
  };
  // Something happened on this thread.
  Note note() {
    const int task = torch::autograd::get_current_graph_task_id();
    const bool known = task < 0 ? tasks_.empty() : task == last_;
    return known ? Note{.inside = task >= 0} : note_other(task);
  }
  // The listener was told that `task` is over. Returns true when the whole backward is.
  bool close(int task);
  bool open() const { return !tasks_.empty(); }

 private:
  Note note_other(int task);

  std::shared_ptr<Link> link_;
  std::map<int, std::weak_ptr<void>> tasks_;  // each with what lives as long as the task does
  int last_ = -1;
};

}  // namespace fsdp::interpose
