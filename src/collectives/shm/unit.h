// One unit's collectives in shared memory, among the ranks of one host.
//
// A gather returns the memory that the ranks of a shard group share (unit_memory.h) when every owner has published, and
// copies nothing. Or it copies each shard into the caller's buffer as soon as its owner has published it
// (gather_choice.h), on the calling thread, in `wait_gather`. A unit that is one shard hands out the shard. A reduction
// reads the peers' gradients where they lie (unit_reduction.h). Opening one is a collective.
#pragma once

#include <memory>
#include <string>

#include "collectives/group.h"
#include "collectives/shm/context.h"
#include "collectives/shm/gather_choice.h"
#include "collectives/shm/unit_memory.h"
#include "collectives/shm/unit_reduction.h"

namespace fsdp::collectives::shm {

class SharedMemoryUnit final : public UnitCollectives {
 public:
  SharedMemoryUnit(std::shared_ptr<SharedMemoryContext> context, GroupUnitSpec spec, GatherBy gather_by);

  Capabilities capabilities() const override {
    return {.into_buffer = copies(), .one_sided = true, .any_order = true, .sums_in_place = true};
  }
  torch::Tensor shard() const override { return memory_.shard(); }
  UnitBytes bytes() const override { return {}; }
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override;
  void publish() override { memory_.publish(); }
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override;
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override;
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override;

 private:
  bool copies() const { return memory_.is_shared() && gather_by_ == GatherBy::Copy; }
  void copy_shard(int rank);

  std::shared_ptr<SharedMemoryContext> context_;
  GroupUnitSpec spec_;
  GatherBy gather_by_;
  std::string prefix_;
  UnitMemory memory_;
  torch::Tensor buffer_;  // where a copy goes
  SharedMemoryReduction reduction_;
  Gradients gradients_;  // of the reduction under way
  torch::Tensor sum_;    // that replicas may still copy from
};

}  // namespace fsdp::collectives::shm
