#include "collectives/device/work_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/rank_thread.h"
#include "fsdp/error.h"

namespace fsdp::collectives::device {

WorkWatch::WorkWatch(std::chrono::milliseconds timeout, std::function<void()> give_up)
    : timeout_(timeout), give_up_(std::move(give_up)), thread_(of_this_rank([this] { run(); })) {}

WorkWatch::~WorkWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

// Work keeps its tensors. Drops finished operations, up to the first unfinished one.
void WorkWatch::begins(std::string name, c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(mutex_);
  const auto is_under_way = [](const Begun& one) { return !one.work->isCompleted(); };
  begun_.erase(begun_.begin(), std::ranges::find_if(begun_, is_under_way));
  begun_.push_back({std::move(name), std::move(work), Patience(timeout_)});
  if (begun_.size() == 1) changed_.notify_all();
}

void WorkWatch::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

void WorkWatch::run() {
  const std::chrono::milliseconds between_looks = Patience(timeout_).until_next_look();
  std::unique_lock lock(mutex_);
  while (!stopping_ && !failure_) {
    changed_.wait(lock, [this] { return stopping_ || !begun_.empty(); });
    changed_.wait_for(lock, between_looks, [this] { return stopping_; });
    if (!stopping_) look();
  }
  if (!failure_) return;
  begun_.clear();
  lock.unlock();
  give_up_();
}

void WorkWatch::look() {
  std::erase_if(begun_, [](const Begun& one) { return one.work->isCompleted(); });
  for (Begun& one : begun_) {
    if (!one.patience.is_over()) continue;
    failure_ = fmt::format(
        "{}: it was not over on the device after {} ms, and was aborted. A rank may be stopped or stuck, may run other "
        "units, or a connection between GPUs may be broken. See the other ranks' messages.",
        one.name, timeout_.count());
    return;
  }
}

}  // namespace fsdp::collectives::device
