#include "collectives/waiting_threads.h"

#include <utility>

#include "base/rank_thread.h"

namespace fsdp::collectives {

WaitingThreads::~WaitingThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WaitingThreads::begin(std::function<void()> wait) {
  const std::lock_guard lock(mutex_);
  waits_.push_back(std::move(wait));
  if (idle_ < waits_.size()) threads_.emplace_back(of_this_rank([this] { run(); }));
  changed_.notify_one();
}

void WaitingThreads::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !waits_.empty(); });
    --idle_;
    if (waits_.empty()) return;
    const std::function<void()> wait = std::move(waits_.front());
    waits_.pop_front();
    lock.unlock();
    wait();
    lock.lock();
  }
}

}  // namespace fsdp::collectives
