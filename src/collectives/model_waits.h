// The long waits in a model's group, as the other groups of this process see them (world_calls.h).
//
// Ranks begin the operations of a model's group in one order. A rank that has begun the last operation of a waiting
// rank has come: the wait needs nothing more of it. Guarded by its owner.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/world_calls.h"

namespace fsdp::collectives {

class ModelWaits {
 public:
  // If there are no calls, or the group is no model's, nothing is shown.
  ModelWaits(std::shared_ptr<WorldCalls> calls, const WorldCalls::Place& place)
      : calls_(place.of_model ? std::move(calls) : nullptr), group_(place.group) {
    if (calls_) calls_->open(place);
  }
  ~ModelWaits() {
    hide();
    if (calls_) calls_->close(group_);
  }
  ModelWaits(const ModelWaits&) = delete;
  ModelWaits& operator=(const ModelWaits&) = delete;

  // The calling thread begins an operation of all ranks.
  void begin_operation() {
    if (calls_) operation_ = calls_->begin_operation(group_);
  }
  // A wait of that thread is long. `purpose` is in words that follow "rank 1 ", and `ranks` are those of the group.
  void show(std::thread::id thread, const std::string& purpose, const std::vector<int>& ranks) {
    if (!calls_ || shown_) return;
    calls_->show(thread, group_, operation_, purpose, ranks);
    shown_ = thread;
  }
  // The wait is over, if one was shown.
  void hide() {
    if (shown_) calls_->hide(*shown_);
    shown_.reset();
  }

 private:
  const std::shared_ptr<WorldCalls> calls_;
  const uint64_t group_;
  uint64_t operation_ = 0;                // the number of the last one
  std::optional<std::thread::id> shown_;  // the thread whose wait is shown
};

}  // namespace fsdp::collectives
