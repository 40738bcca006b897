// Threads that wait for something in place of a thread that only asks whether it is over.
//
// As many as there are waits under way; a thread whose wait is over takes the next one. Any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fsdp::collectives {

class WaitingThreads {
 public:
  WaitingThreads() = default;
  // Returns when all waits are over.
  ~WaitingThreads();
  WaitingThreads(const WaitingThreads&) = delete;
  WaitingThreads& operator=(const WaitingThreads&) = delete;

  // Begins it, on a thread of its own. `wait` throws nothing.
  void begin(std::function<void()> wait);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waits_;  // not begun
  size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fsdp::collectives
