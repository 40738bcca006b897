// Ends waits that last too long, beside a thread that cannot look at the clock while it waits.
//
// Time in which this process was stopped does not count (base/patience.h). A thread looks several times per second at
// the waits that are under way; the waiting thread pays for a free mutex at its begin and its end. Any thread; several
// may wait at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/patience.h"

namespace fsdp::collectives {

class Alarm {
 public:
  explicit Alarm(std::chrono::milliseconds timeout);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  std::chrono::milliseconds timeout() const { return timeout_; }

  // While it lives, a rank waits. When that has lasted for the timeout, `end` is called once, from another thread.
  class Wait {
   public:
    Wait(Alarm& alarm, std::function<void()> end);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    bool has_rung() const;

   private:
    friend class Alarm;

    Alarm& alarm_;
    std::function<void()> end_;
    Patience patience_;
    bool has_rung_ = false;
  };

 private:
  void run();

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable stops_;
  bool stopping_ = false;
  std::vector<Wait*> waits_;
  std::thread thread_;
};

}  // namespace fsdp::collectives
