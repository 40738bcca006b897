#include "collectives/hosts/task_threads.h"

#include <utility>

#include "base/rank_thread.h"

namespace fsdp::collectives::hosts {

TaskThreads::~TaskThreads() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void TaskThreads::run(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  if (waiting_.size() > idle_) {
    ++idle_;
    threads_.emplace_back(of_this_rank([this] { serve(); }));
  }
  changed_.notify_one();
}

void TaskThreads::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> task = std::move(waiting_.front());
    waiting_.pop_front();
    --idle_;
    lock.unlock();
    task();
    lock.lock();
    ++idle_;
  }
}

}  // namespace fsdp::collectives::hosts
