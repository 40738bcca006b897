// The protocol by which the ranks of a group share a unit's memory, without the waiting.
//
// Epochs order the writes of a unit's shards and the reads of the whole. Before a write each rank enters a new epoch,
// which says that its reads are over, and writes when all of its shard group have entered. It publishes the epoch when
// its shard is written; a rank reads when every owner has published the epoch that the reader is in. So reads
// are one-sided: between two writes a rank reads as often as it likes. A unit begins in the midst of its first write.
//
// Reductions are numbered. A rank offers its gradients; it adds up its slice when all have offered, and then says that
// it took from them. The gradients may change when all have taken, and the sum of the shard may take their place: so a
// rank offers no reduction before every rank is through with the one before. When all have taken, a rank copies the
// slices of its replicas from their sums, and says that it has; the sum may change when all replicas have copied.
//
// Only the own counters are written. The caller waits until the questions below are true for each rank concerned.
#pragma once

#include <cstdint>

#include "collectives/shm/control.h"
#include "collectives/shm/rank_memory.h"

namespace fsdp::collectives::shm {

// A rank's part in a unit, in this process.
struct UnitMember {
  UnitControl* control = nullptr;
  RankMemory* memory = nullptr;  // where the addresses in `control` lie
};

class UnitCounters {
 public:
  explicit UnitCounters(UnitControl& own) : own_(&own) {}

  void enter() { own_->entered.set(++epoch_); }
  bool has_entered(const UnitControl& rank) const { return rank.entered.get() >= epoch_; }
  void publish() { own_->published.set(epoch_); }
  bool has_published(const UnitControl& owner) const { return owner.published.get() >= epoch_; }

  void offer() { own_->offered.set(++reduction_); }
  bool has_offered(const UnitControl& rank) const { return rank.offered.get() >= reduction_; }
  void take() { own_->taken.set(reduction_); }
  bool has_taken(const UnitControl& rank) const { return rank.taken.get() >= reduction_; }
  void copy() { own_->copied.set(reduction_); }
  bool has_copied(const UnitControl& rank) const { return rank.copied.get() >= reduction_; }

 private:
  UnitControl* own_;
  uint64_t epoch_ = 1;
  uint64_t reduction_ = 0;
};

}  // namespace fsdp::collectives::shm
