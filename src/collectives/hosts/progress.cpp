#include "collectives/hosts/progress.h"

#include <chrono>

#include "base/rank_thread.h"

namespace fsdp::collectives::hosts {

namespace {

// Between two looks at what the peers have released.
constexpr std::chrono::microseconds kPause{200};

}  // namespace

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Progress::begin() {
  std::lock_guard lock(mutex_);
  if (!ranks_->has_work()) return;
  going_ = true;
  if (!thread_.joinable()) thread_ = std::thread(of_this_rank([this] { run(); }));
  changed_.notify_all();
}

void Progress::end() noexcept {
  std::lock_guard lock(mutex_);
  going_ = false;
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!going_) {
      changed_.wait(lock);
      continue;
    }
    ranks_->advance();
    going_ = ranks_->has_work();
    if (going_) changed_.wait_for(lock, kPause);
  }
}

}  // namespace fsdp::collectives::hosts
