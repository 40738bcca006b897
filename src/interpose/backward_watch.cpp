#include "interpose/backward_watch.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

namespace fsdp::interpose {

BackwardWatch::Place BackwardWatch::note() {
  const int task = torch::autograd::get_current_graph_task_id();
  if (task < 0) {
    if (tasks_.empty() || std::this_thread::get_id() != thread_) return Place::Outside;
    tasks_.clear();
    last_ = -1;
    return Place::AfterAbandoned;
  }
  if (task == last_ || !tasks_.insert(task).second) return Place::Inside;
  last_ = task;
  thread_ = std::this_thread::get_id();
  torch::autograd::Engine::get_default_engine().queue_callback([link = link_, task] {
    if (link->listener != nullptr) link->listener->backward_ends(task);
  });
  return Place::Inside;
}

bool BackwardWatch::close(int task) {
  last_ = -1;
  return tasks_.erase(task) > 0 && tasks_.empty();
}

}  // namespace fsdp::interpose
