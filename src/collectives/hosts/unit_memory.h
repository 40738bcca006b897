// A unit's memory on one host: its ranks' counters, their shards and, where the host keeps the unit, its full
// parameters, once for the ranks of a shard group: what is gathered lies here until the next write.
//
// The host's ranks of a shard group have such a unit in one file that each maps. Each writes its own shard into it, and
// what its counterparts on the other hosts own. When that is there it publishes, and whoever reads waits until all of
// the host have. The shard of a unit that is not kept, or is one
// shard, is memory of this rank alone. Opening one is a collective of the host.
//
// What operators get is mapped without the right to write. In builds with FSDP_POISON it is out of reach while it is
// released.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/hosts/context.h"
#include "collectives/shm/unit_counters.h"
#include "collectives/shm/unit_reduction.h"

namespace fsdp::collectives::hosts {

class UnitMemory {
 public:
  // Throws Error, also WaitFailure as `Ranks::wait`.
  UnitMemory(HostsContext& context, const GroupUnitSpec& spec);

  const std::vector<shm::UnitMember>& members() const { return members_; }  // by the ranks' numbers on this host
  shm::UnitControl& own_control() const { return *members_[context_->number_on_host()].control; }
  torch::Tensor shard() const { return shard_; }
  // The ranks of other hosts whose shards this rank fetches: its counterparts within the shard group.
  const std::vector<int>& fetched_from() const { return fetched_from_; }
  void* place_of(int rank) const;  // where such a rank's shard lies
  int64_t fetched_bytes() const { return full_ ? static_cast<int64_t>(fetched_from_.size() * shard_.nbytes()) : 0; }

  // Returns when this host's ranks read the unit no more. Both waits throw WaitFailure.
  void begin_write();
  // The same without waiting; false where one of them may still do so.
  bool try_begin_write();
  // This rank's part is there. From any thread.
  void publish();
  // Returns when the whole unit is there; valid until `release`.
  void* wait_full();
  void release();

 private:
  void open(const GroupUnitSpec& spec);
  void end_reads();
  uint64_t make_control(shm::OwnMemory& memory) const;
  void map(shm::MemoryFile& file, torch::ScalarType dtype);

  HostsContext* context_;
  layout::UnitLayout layout_;
  std::string read_purpose_, write_purpose_;
  std::vector<int> peers_;  // this host's of the shard group, by their numbers on it
  std::vector<int> fetched_from_;
  std::vector<shm::UnitMember> members_;
  std::optional<shm::Mapping> full_;  // none for a unit that is not kept, or is one shard
  char* writable_ = nullptr;
  torch::Tensor shard_;
  std::optional<shm::UnitCounters> counters_;
  bool has_ended_reads_ = false;  // and not begun to write
};

}  // namespace fsdp::collectives::hosts
