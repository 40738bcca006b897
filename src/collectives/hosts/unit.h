// One unit's collectives over several hosts.
//
// Each host has a shard group's full unit once, in memory that its ranks share (unit_memory.h), and as long as it is
// not written it stays there: what a host holds is what its ranks would hold if they divided the unit among themselves
// (the secondary partition of ZeRO++, arXiv:2306.10209). Publishing a shard sends it to the counterparts on the other
// hosts, and starts to receive theirs straight into their places, beside the caller. A gather waits until all of the
// host have what they fetch, copies nothing, and asks nothing of anybody: so a rank may gather alone, as often as it
// likes, and in any order. Reductions: unit_reduction.h.
//
// Opening one is a collective. The destructor waits until the counterparts have what was published, unless the group
// failed or the stack is being unwound.
#pragma once

#include <memory>
#include <string>

#include "collectives/group.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/transfer_queue.h"
#include "collectives/hosts/unit_memory.h"
#include "collectives/hosts/unit_reduction.h"

namespace fsdp::collectives::hosts {

class HostsUnit final : public UnitCollectives {
 public:
  // A shard group is made of whole hosts, or lies within one.
  HostsUnit(std::shared_ptr<HostsContext> context, GroupUnitSpec spec);
  ~HostsUnit() override;

  Capabilities capabilities() const override {
    return {.into_buffer = false,
            .one_sided = true,
            .any_order = true,
            .sums_at_once = spec_.layout.shards() == spec_.layout.ranks()};
  }
  torch::Tensor shard() const override { return memory_.shard(); }
  UnitBytes bytes() const override { return {.gathered = memory_.fetched_bytes()}; }
  int64_t staging_numel(const layout::GradientLayout& layout) const override {
    return reduction_.staging_numel(layout);
  }
  bool begin_write(Readers readers) override;
  void publish() override;
  void begin_gather(const torch::Tensor&, Order) override {}
  void* wait_gather() override;
  void release() override { memory_.release(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  bool wait_begun() override { return reduction_.wait_begun(); }
  void wait_reduce() override { reduction_.wait(); }
  void wait_sum() override { reduction_.wait_sum(); }

 private:
  void wait_fetched(const char* operation);

  std::shared_ptr<HostsContext> context_;
  GroupUnitSpec spec_;
  std::string prefix_;
  UnitMemory memory_;
  HostsReduction reduction_;
  Transfer fetch_;       // of the last publication; after the memory
  bool fetched_ = true;  // it was waited for
};

}  // namespace fsdp::collectives::hosts
