// Something that exchanges messages beside the rank's own thread.
//
// The owner starts it and waits for it, one at a time; the body waits for messages by `wait_for`, and so can be
// ended from outside. The destructor ends a body under way.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "collectives/hosts/task_threads.h"
#include "collectives/transport.h"

namespace fsdp::collectives::hosts {

class BackgroundTask {
 public:
  explicit BackgroundTask(TaskThreads& threads) : threads_(&threads) {}
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // None is under way. Waits for it throw the exceptions of `body`.
  void start(std::function<void()> body);
  // Ends one under way, for good.
  void cancel() noexcept;

  // For the body: waits for a message. Throws TransportFailure, also when the task is ended.
  void wait_for(Message& message);
  // For the body: it has come one step further.
  void step_is_done();
  int steps_done() const;
  bool is_running() const;

  // For the owner: to wait for so many steps, or for the end. To abort the first leaves the body alone; to abort the
  // second ends what the body waits for.
  std::unique_ptr<Message> steps(int count);
  std::unique_ptr<Message> end();

 private:
  class Steps;
  class End;

  void run(const std::function<void()>& body);
  void wait_for_steps(int count);
  void wait_for_end();
  void give_up_wait();
  void abort_body();

  TaskThreads* threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  bool running_ = false;
  bool cancelled_ = false;
  bool wait_given_up_ = false;
  int steps_ = 0;
  Message* awaited_ = nullptr;  // by the body
  std::exception_ptr failure_;
};

}  // namespace fsdp::collectives::hosts
