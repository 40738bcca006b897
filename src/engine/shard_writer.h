// Changes of the shards: from the last read of the old values to the publication of the new ones.
//
// In between nothing is full, and no rank reads the shards. The model's lock covers all calls.
#pragma once

#include <functional>

#include "engine/executor.h"
#include "engine/shard_readers.h"
#include "interpose/listener.h"
#include "memory/backing.h"
#include "schedule/schedule.h"

namespace fsdp::engine {

class ShardWriter {
 public:
  // All outlive it.
  ShardWriter(Executor& executor, Units& units, schedule::Schedule& schedule, Recorder& recorder,
              std::shared_ptr<interpose::Link> link, ShardReaders& readers, std::shared_ptr<memory::Backing> backing)
      : executor_(executor),
        units_(units),
        schedule_(schedule),
        recorder_(recorder),
        link_(std::move(link)),
        readers_(readers),
        backing_(std::move(backing)) {}

  // A shard or an optimizer's state is about to be written.
  void changes() { backing_->changes(); }

  // Nothing is full afterwards. A collective.
  void release_all();
  // No read goes on beside the program afterwards: the shards, as far as peers are concerned, and optimizers' state may
  // be written.
  void wait_for_readers();
  // Every shard may be written afterwards. A collective.
  void begin_write();
  // Peers see all shards as they are now.
  void publish();

  // A full unit's shard is changed, on every rank at the same point. Operators then find the new values at the same
  // place. A collective.
  void change_full(int unit, const std::function<void()>& change);

  // Operators of the user's write pieces from now on: published when the model is used next.
  void pieces_change();
  bool pieces_changed() const { return pieces_changed_; }
  void publish_pieces() {
    if (pieces_changed_) publish();
  }

 private:
  Executor& executor_;
  Units& units_;
  schedule::Schedule& schedule_;
  Recorder& recorder_;
  std::shared_ptr<interpose::Link> link_;
  ShardReaders& readers_;
  std::shared_ptr<memory::Backing> backing_;  // of the shards
  bool pieces_changed_ = false;
};

}  // namespace fsdp::engine
