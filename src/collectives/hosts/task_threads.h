// Threads that run tasks beside the rank's own thread: one for each task under way, since a task that waits for a peer
// must not keep another one from what has come already. A thread whose task has ended is kept for the next.
//
// Owned by a group's context. Any thread may run a task. The destructor waits for the tasks under way.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fsdp::collectives::hosts {

class TaskThreads {
 public:
  TaskThreads() = default;
  ~TaskThreads();
  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;

  // `task` throws nothing.
  void run(std::function<void()> task);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // at most as many as there are idle threads
  size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fsdp::collectives::hosts
