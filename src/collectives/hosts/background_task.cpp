#include "collectives/hosts/background_task.h"

#include <utility>

namespace fsdp::collectives::hosts {

namespace {

constexpr int kNobody = -1;

}  // namespace

class BackgroundTask::Steps final : public Message {
 public:
  Steps(BackgroundTask& task, int count) : task_(task), count_(count) {}
  void wait() override { task_.wait_for_steps(count_); }
  void abort() override { task_.give_up_wait(); }

 private:
  BackgroundTask& task_;
  int count_;
};

class BackgroundTask::End final : public Message {
 public:
  explicit End(BackgroundTask& task) : task_(task) {}
  void wait() override { task_.wait_for_end(); }
  void abort() override { task_.abort_body(); }

 private:
  BackgroundTask& task_;
};

BackgroundTask::~BackgroundTask() { cancel(); }

void BackgroundTask::cancel() noexcept {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  if (awaited_) awaited_->abort();
  changed_.wait(lock, [&] { return !running_; });
}

void BackgroundTask::start(std::function<void()> body) {
  {
    std::lock_guard lock(mutex_);
    running_ = true;
    steps_ = 0;
    failure_ = {};
  }
  threads_->run([this, body = std::move(body)] { run(body); });
}

void BackgroundTask::run(const std::function<void()>& body) {
  std::exception_ptr failure;
  try {
    body();
  } catch (...) {
    failure = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  running_ = false;
  changed_.notify_all();
}

void BackgroundTask::wait_for(Message& message) {
  {
    std::lock_guard lock(mutex_);
    if (cancelled_) throw TransportFailure("the operation was given up", kNobody);
    awaited_ = &message;
  }
  const auto ends = [this] {
    std::lock_guard lock(mutex_);
    awaited_ = nullptr;
  };
  try {
    message.wait();
  } catch (...) {
    ends();
    throw;
  }
  ends();
}

void BackgroundTask::step_is_done() {
  std::lock_guard lock(mutex_);
  ++steps_;
  changed_.notify_all();
}

int BackgroundTask::steps_done() const {
  std::lock_guard lock(mutex_);
  return steps_;
}

bool BackgroundTask::is_running() const {
  std::lock_guard lock(mutex_);
  return running_;
}

std::unique_ptr<Message> BackgroundTask::steps(int count) { return std::make_unique<Steps>(*this, count); }
std::unique_ptr<Message> BackgroundTask::end() { return std::make_unique<End>(*this); }

void BackgroundTask::wait_for_steps(int count) {
  std::unique_lock lock(mutex_);
  wait_given_up_ = false;
  changed_.wait(lock, [&] { return wait_given_up_ || steps_ >= count || !running_; });
  if (steps_ >= count) return;
  if (failure_) std::rethrow_exception(failure_);
  throw TransportFailure("the wait was given up", kNobody);
}

void BackgroundTask::wait_for_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !running_; });
  if (failure_) std::rethrow_exception(failure_);
}

void BackgroundTask::give_up_wait() {
  std::lock_guard lock(mutex_);
  wait_given_up_ = true;
  changed_.notify_all();
}

void BackgroundTask::abort_body() {
  std::lock_guard lock(mutex_);
  if (awaited_) awaited_->abort();
}

}  // namespace fsdp::collectives::hosts
