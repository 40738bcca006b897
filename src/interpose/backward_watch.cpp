#include "interpose/backward_watch.h"

#include <torch/csrc/autograd/engine.h>

namespace fsdp::interpose {

BackwardWatch::Note BackwardWatch::note_other(int task) {
  const bool ended = std::erase_if(tasks_, [](const auto& open) { return open.second.expired(); }) > 0;
  const Note note{.inside = task >= 0, .abandoned = ended && tasks_.empty()};
  if (note.inside && !tasks_.contains(task)) {
    // The engine drops the callback with the task, whether it was called or not.
    auto alive = std::make_shared<int>(task);
    tasks_.emplace(task, alive);
    torch::autograd::Engine::get_default_engine().queue_callback([link = link_, alive] {
      if (link->listener != nullptr) link->listener->backward_ends(*alive);
    });
  }
  last_ = task;
  return note;
}

bool BackwardWatch::close(int task) {
  last_ = -1;
  return tasks_.erase(task) > 0 && tasks_.empty();
}

}  // namespace fsdp::interpose
