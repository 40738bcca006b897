// The writes and reads of a unit's shards among the ranks that share it: its epochs (unit_counters.h), and the waiting.
//
// Plain memory, no tensors. The unit's opener owns it; one thread at a time, except for `publish`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/shm/ranks.h"
#include "collectives/shm/unit_counters.h"

namespace fsdp::collectives::shm {

class UnitEpochs {
 public:
  // `members` by rank; their memory outlives this. `sharers` are the peers that share the unit with this rank, and
  // `unit` is how messages call it.
  UnitEpochs(Ranks& ranks, std::vector<UnitMember> members, std::vector<int> sharers, const std::string& unit);

  // This rank reads the unit no more. Returns when no sharer reads this rank's shard. Throws WaitFailure.
  void begin_write();
  // As `begin_write`, without waiting: false where a sharer may still read.
  bool try_begin_write();
  // This rank's part is written. From any thread.
  void publish();
  // Returns when every sharer has published. `published`, where there is one, is told each as it has. Throws
  // WaitFailure.
  void wait_published(const std::function<void(int rank)>& published = {});

 private:
  void end_reads();
  bool has_entered(int rank) const { return counters_.has_entered(*members_[rank].control); }

  Ranks* ranks_;
  std::vector<UnitMember> members_;
  std::vector<int> sharers_;
  std::string read_purpose_, write_purpose_;
  UnitCounters counters_;
  bool has_ended_reads_ = false;  // and not begun to write
};

}  // namespace fsdp::collectives::shm
