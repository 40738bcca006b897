// Changes of the shards by other means than a step: from the last read of the old values to the publication of the new.
//
// In between nothing is full, and no rank reads the shards.
#pragma once

#include <atomic>
#include <functional>

#include "schedule/executor.h"

namespace fsdp::schedule {

class ShardChanges {
 public:
  // All outlive it. `changed` is set while the shards have changed since a parameter was used or viewed last.
  ShardChanges(Schedule& schedule, Executor& executor, Performer& performer, std::atomic<bool>& changed)
      : schedule_(schedule), executor_(executor), performer_(performer), changed_(changed) {}

  // Nothing is full afterwards. A collective.
  void release_all();
  // Every shard may be written afterwards. A collective.
  void begin_write();
  // Peers see all shards as they are now.
  void publish();
  // A full unit's shard is changed, on every rank at the same point. Operators then find the new values at the same
  // place. A collective.
  void change_full(UnitId unit, const std::function<void()>& change);

  // Operators of the user's write pieces from now on: published when the model is used next.
  void pieces_change();
  bool pieces_changed() const { return pieces_changed_; }
  void publish_pieces() {
    if (pieces_changed_) publish();
  }

 private:
  Schedule& schedule_;
  Executor& executor_;
  Performer& performer_;
  std::atomic<bool>& changed_;
  bool pieces_changed_ = false;
};

}  // namespace fsdp::schedule
