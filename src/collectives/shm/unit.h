// One unit's collectives in shared memory.
//
// The ranks of a shard group have the unit once, in one file that each maps; each owns its shard of it. A gather hands
// out the mapping when every owner has published, and copies nothing, or copies each shard into the caller's buffer as
// soon as its owner has published it (gather_choice.h): on the calling thread, in `wait_gather`. A unit that is one
// shard hands out the shard. A reduction reads the peers' gradients where they lie (unit_reduction.h). Opening one is a
// collective.
//
// The mapping is without the right to write. In builds with FSDP_POISON one that is handed out is out of reach while it
// is released, so that a use without a gather is a fault.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/shm/context.h"
#include "collectives/shm/gather_choice.h"
#include "collectives/shm/unit_counters.h"
#include "collectives/shm/unit_reduction.h"

namespace fsdp::collectives::shm {

class SharedMemoryUnit final : public UnitCollectives {
 public:
  SharedMemoryUnit(std::shared_ptr<SharedMemoryContext> context, GroupUnitSpec spec, GatherBy gather_by);

  Capabilities capabilities() const override {
    return {.into_buffer = copies(), .one_sided = true, .any_order = true, .sums_at_once = true};
  }
  torch::Tensor shard() const override { return shard_; }
  UnitBytes bytes() const override { return {.reductions = sums_bytes_}; }
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override;
  void publish() override;
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override;
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  bool wait_begun() override;
  void wait_reduce() override;
  void wait_sum() override {}

 private:
  bool copies() const { return full_ && gather_by_ == GatherBy::Copy; }
  void open();
  void end_reads();
  void map_shard(MemoryFile& file);
  Access released() const;  // the right to the full unit that remains
  void copy_shard(int rank);
  uint64_t make_control();

  std::shared_ptr<SharedMemoryContext> context_;
  GroupUnitSpec spec_;
  GatherBy gather_by_;
  std::string gather_purpose_, write_purpose_;
  std::vector<int> shard_peers_;     // with whom this rank owns the whole unit
  std::vector<UnitMember> members_;  // by rank
  std::optional<Mapping> full_;      // none for a unit that is one shard
  torch::Tensor shard_;
  torch::Tensor buffer_;    // where a copy goes
  int64_t sums_bytes_ = 0;  // of what replicas take from this rank
  std::optional<UnitCounters> counters_;
  bool has_ended_reads_ = false;  // and not begun to write
  std::optional<SharedMemoryReduction> reduction_;
  Gradients gradients_;  // of the reduction under way
};

}  // namespace fsdp::collectives::shm
