// Calls of a World that were begun and not waited for.
#pragma once

#include <torch/types.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "collectives/group.h"

namespace fsdp::world {

class Pending {
 public:
  virtual ~Pending() = default;
  // As Work's.
  virtual void wait() = 0;
  virtual bool is_over() = 0;
};

// A tensor's way to or from another rank. One thread at a time.
class PendingMessage final : public Pending {
 public:
  // `arrived` is called once, by the `wait` that finds the message over.
  explicit PendingMessage(std::unique_ptr<collectives::TensorMessage> message, std::function<void()> arrived = nullptr)
      : message_(std::move(message)), arrived_(std::move(arrived)) {}
  void wait() override;
  bool is_over() override { return !message_ || message_->is_over(); }

 private:
  std::unique_ptr<collectives::TensorMessage> message_;  // null: it is over
  std::function<void()> arrived_;
  std::exception_ptr failure_;
};

// Runs collectives beside the program, one after the other, on a thread and a group of its own.
//
// All ranks give it the same calls in the same order. One thread calls it.
class Background {
 public:
  // `number` is the group's in `calls`.
  Background(std::unique_ptr<collectives::Group> group, std::shared_ptr<collectives::WorldCalls> calls,
             uint64_t number);
  // Waits for the calls that were given.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  using Call = std::function<void(collectives::Group& group)>;
  // Runs the call as on this thread: with its modes, and on its present stream of the device. `purpose` is in words
  // that follow "rank 1 ".
  std::shared_ptr<Pending> run(torch::Device device, std::string purpose, Call call);

 private:
  class Task;

  void work();

  std::unique_ptr<collectives::Group> group_;
  const std::shared_ptr<collectives::WorldCalls> calls_;
  const uint64_t number_;  // of the group in these
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fsdp::world
