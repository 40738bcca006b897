// Finds what hangs on a device, where a wait makes the device wait and not the host.
//
// A thread looks several times per timeout at all that was begun. If something is not over when the timeout has passed,
// the thread gives up what the device still waits for, and the host learns of it at its next call. Time in which this
// process was stopped does not count (base/patience.h). The calls come from one thread at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "base/patience.h"

namespace fsdp::collectives::device {

class WorkWatch {
 public:
  // `give_up` is called once, from the thread; afterwards the device waits for nothing.
  WorkWatch(std::chrono::milliseconds timeout, std::function<void()> give_up);
  ~WorkWatch();
  WorkWatch(const WorkWatch&) = delete;
  WorkWatch& operator=(const WorkWatch&) = delete;

  // `name` starts the message of the error. Drops earlier work that is over.
  void begins(std::string name, c10::intrusive_ptr<c10d::Work> work);
  // Throws Error if something hung.
  void check();

 private:
  struct Begun {
    std::string name;
    c10::intrusive_ptr<c10d::Work> work;
    Patience patience;
  };

  void run();
  void look();

  const std::chrono::milliseconds timeout_;
  const std::function<void()> give_up_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<Begun> begun_;
  std::optional<std::string> failure_;
  std::thread thread_;
};

}  // namespace fsdp::collectives::device
