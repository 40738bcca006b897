// Watches a rank that may come to stand still: then its stacks are written, those of the others too, and the job ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "run/shared_flag.h"
#include "training/run_phase.h"

namespace trainer {

// A thread beside the rank. If the phase has not changed for `longest`, counted in time in which the rank ran, it
// writes the file and prints to standard error. The others find `hangs` set and write theirs. Then the first rank of a
// host to do so ends its process.
class HangWatch {
 public:
  struct Watched {
    std::string who;                         // "rank 1"
    std::string file;                        // RUN/hang-1.txt
    std::function<std::string()> waits_for;  // the collective; empty text: none. Called on the watch's thread
  };

  // With `longest` 0 there is no watch. References outlive this.
  HangWatch(std::chrono::seconds longest, Watched watched, const RunPhase& phase, SharedFlag& hangs);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

 private:
  void watch(std::chrono::seconds longest);
  bool ends_within(std::chrono::milliseconds time);
  void tell(const std::string& why) const;

  Watched watched_;
  const RunPhase& phase_;
  SharedFlag& hangs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trainer
