#include "world/pending.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <utility>

#include "base/rank_thread.h"
#include "collectives/pumps.h"
#include "fsdp/work.h"

namespace fsdp {

void Work::wait() {
  if (const auto& pending = pending_.get()) pending->wait();
}

bool Work::done() const {
  collectives::pumps_of_this_thread()->pump();
  return !pending_.get() || pending_->is_over();
}

namespace world {

void PendingMessage::wait() {
  if (failure_) std::rethrow_exception(failure_);
  if (!message_) return;
  try {
    message_->wait();
    if (arrived_) arrived_();
  } catch (...) {
    failure_ = std::current_exception();
  }
  message_.reset();
  arrived_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

class Background::Task final : public Pending {
 public:
  Task(Background& background, torch::Device device, std::string purpose, Call call)
      : calls_(background.calls_),
        group_(background.number_),
        thread_(background.thread_.get_id()),
        number_(calls_->give(group_)),
        purpose_(std::move(purpose)),
        call_(std::move(call)) {
    if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  }

  void run(collectives::Group& group) {
    std::exception_ptr failure;
    try {
      const at::ThreadLocalStateGuard modes(modes_);
      const c10::OptionalStreamGuard stream(stream_);
      calls_->run_given(group_, number_, purpose_);
      call_(group);
    } catch (...) {
      failure = std::current_exception();
    }
    calls_->end();
    const std::lock_guard lock(mutex_);
    call_ = nullptr;
    failure_ = failure;
    is_over_ = true;
    changed_.notify_all();
  }
  void wait() override {
    const collectives::PumpedWait pumped;
    const collectives::WorldCalls::WaitForThread waiting(*calls_, thread_);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  bool is_over() override {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

 private:
  const std::shared_ptr<collectives::WorldCalls> calls_;
  const uint64_t group_;
  const std::thread::id thread_;  // which runs it
  const uint64_t number_;         // of the call in the group
  const std::string purpose_;
  const at::ThreadLocalState modes_;  // of the thread that gave the call
  std::optional<c10::Stream> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Call call_;
  std::exception_ptr failure_;
  bool is_over_ = false;
};

Background::Background(std::unique_ptr<collectives::Group> group, std::shared_ptr<collectives::WorldCalls> calls,
                       uint64_t number)
    : group_(std::move(group)), calls_(std::move(calls)), number_(number), thread_(of_this_rank([this] { work(); })) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  const collectives::PumpedWait pumped;
  thread_.join();
}

std::shared_ptr<Pending> Background::run(torch::Device device, std::string purpose, Call call) {
  auto task = std::make_shared<Task>(*this, device, std::move(purpose), std::move(call));
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
  }
  changed_.notify_all();
  return task;
}

void Background::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::shared_ptr<Task> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task->run(*group_);
  }
}

}  // namespace world

}  // namespace fsdp
