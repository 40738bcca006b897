#include "collectives/alarm.h"

#include <utility>

#include "base/rank_thread.h"

namespace fsdp::collectives {

Alarm::Alarm(std::chrono::milliseconds timeout) : timeout_(timeout), thread_(of_this_rank([this] { run(); })) {}

Alarm::~Alarm() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    stops_.notify_all();
  }
  thread_.join();
}

// It is not woken for a wait that begins: most end long before its next look.
void Alarm::run() {
  const std::chrono::milliseconds between_looks = Patience(timeout_).until_next_look();
  std::unique_lock lock(mutex_);
  while (!stops_.wait_for(lock, between_looks, [this] { return stopping_; })) {
    for (Wait* wait : waits_) {
      if (wait->has_rung_ || !wait->patience_.is_over()) continue;
      wait->has_rung_ = true;
      wait->end_();
    }
  }
}

Alarm::Wait::Wait(Alarm& alarm, std::function<void()> end)
    : alarm_(alarm), end_(std::move(end)), patience_(alarm.timeout_) {
  std::lock_guard lock(alarm_.mutex_);
  alarm_.waits_.push_back(this);
}

Alarm::Wait::~Wait() {
  std::lock_guard lock(alarm_.mutex_);
  std::erase(alarm_.waits_, this);
}

bool Alarm::Wait::has_rung() const {
  std::lock_guard lock(alarm_.mutex_);
  return has_rung_;
}

}  // namespace fsdp::collectives
