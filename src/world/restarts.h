// How often a local job was started again, whether it is once more, and after which pause.
//
// Owned by the launcher. Pure but for what LaunchOptions::restart_with does.
#pragma once

#include <chrono>
#include <string>

#include "fsdp/world.h"

namespace fsdp::world {

class Restarts {
 public:
  explicit Restarts(const LaunchOptions& options) : options_(options) {}

  int count() const { return count_; }

  // How a failed job goes on.
  struct Again {
    int ranks = 0;  // 0: not
    std::chrono::milliseconds pause{0};
    std::string message = {};  // a sentence
  };
  // After a job that ran for `lasted`; `failure` is all but the restarts.
  Again after(JobFailure failure, std::chrono::milliseconds lasted);

 private:
  int ranks_after(const JobFailure& failure) const;
  std::chrono::milliseconds pause_after(std::chrono::milliseconds lasted);

  const LaunchOptions& options_;
  int count_ = 0;
  int short_lives_ = 0;  // jobs in a row that failed soon
};

}  // namespace fsdp::world
