// A unit's memory on one host: its ranks' controls, their shards and, where the host keeps the unit, its full
// parameters, once for the ranks that share them.
//
// The host's ranks of a shard group have such a unit in one file that each maps. Each writes into it its own shard and
// the shards that it fetches from other hosts, and then publishes. Readers wait until all have published. The shard of
// a unit that the host does not keep, or that is one shard, is memory of this rank only, without waits.
//
// The mapping that operators get is without the right to write. In builds with FSDP_POISON it is out of reach while the
// unit is released, so that a use without a gather is a fault. Where the unit lies on a disk, what is released does not
// count as memory of this process.
//
// Owned by the unit's collectives. One thread at a time, but for `publish`. Throws Error, and WaitFailure as `Ranks`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/group.h"
#include "collectives/shm/context.h"
#include "collectives/shm/unit_counters.h"
#include "collectives/shm/unit_epochs.h"
#include "memory/file_pages.h"
#include "memory/memory_file.h"

namespace fsdp::collectives::shm {

using memory::Access;
using memory::Mapping;
using memory::MemoryFile;

// A unit on a host, for the rank that opens it. Alone, the host has all ranks of the unit's layout.
struct UnitOnHost {
  int first_rank = 0;             // of the host, in the layout
  bool is_kept = true;            // the host keeps the full parameters
  std::vector<int> fetched = {};  // the ranks of other hosts whose shards this rank writes into them
};

class UnitMemory {
 public:
  // A collective of the host.
  UnitMemory(SharedMemoryContext& context, const GroupUnitSpec& spec, const UnitOnHost& on_host);

  const std::vector<UnitMember>& members() const { return members_; }  // by the ranks' numbers on the host
  torch::Tensor shard() const { return shard_; }
  bool is_shared() const { return full_ != nullptr; }
  bool is_on_disk() const { return !whole_.empty(); }
  // The place of a rank's shard in a shared unit; `rank` is of the layout. Written for ranks that are fetched.
  char* place_of(int rank) const { return writable_ + layout_.shard_index(rank) * shard_.nbytes(); }

  // As UnitCollectives::begin_write, among the ranks of the host.
  bool begin_write(Readers readers);
  // This rank's part is there. From any thread.
  void publish();
  // Returns when the parts of all ranks are there, and tells `published` the number of each that comes.
  void wait_published(const std::function<void(int number)>& published = {});
  // The whole unit will be read soon.
  void read_ahead() const;
  // The whole unit, when it is there; valid until `release`.
  void* wait_full();
  void release();

 private:
  void open(SharedMemoryContext& context, const GroupUnitSpec& spec, const UnitOnHost& on_host);
  uint64_t make_control(OwnMemory& memory) const;
  void map(MemoryFile& file, torch::ScalarType dtype, int rank, const std::vector<int>& fetched);
  torch::Tensor shard_over(const MemoryFile& file, torch::ScalarType dtype, int rank,
                           const std::shared_ptr<const Mapping>& writable) const;

  layout::UnitLayout layout_;
  std::vector<int> sharers_;  // the host's other ranks of the shard group, by their numbers
  std::vector<UnitMember> members_;
  std::shared_ptr<Mapping> full_;  // none where it is not shared
  // Pages of both mappings of a shared unit, if it lies on a disk.
  std::vector<memory::FilePages> whole_;
  char* writable_ = nullptr;
  torch::Tensor shard_;
  std::optional<UnitEpochs> epochs_;
};

}  // namespace fsdp::collectives::shm
