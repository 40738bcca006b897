// One unit's collectives over several hosts: its parameters (hosts_parameters.h) and its reductions (unit_reduction.h).
//
// Opening one is a collective. The destructor waits until the counterparts have what they take of this rank's shard,
// unless the group failed or the stack is being unwound.
#pragma once

#include <memory>
#include <string>

#include "collectives/group.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/hosts_parameters.h"
#include "collectives/hosts/unit_reduction.h"
#include "collectives/shm/unit_memory.h"

namespace fsdp::collectives::hosts {

class HostsUnit final : public UnitCollectives {
 public:
  // A shard group is made of whole hosts, or lies within one.
  HostsUnit(std::shared_ptr<HostsContext> context, GroupUnitSpec spec);

  Capabilities capabilities() const override {
    return {.into_buffer = false, .one_sided = parameters_->one_sided(), .any_order = parameters_->one_sided()};
  }
  torch::Tensor shard() const override { return memory_.shard(); }
  UnitBytes bytes() const override {
    const int64_t gathered = parameters_->bytes();
    return {.gathered = gathered, .in_files = memory_.is_on_disk() ? gathered : 0};
  }
  int64_t staging_numel(const layout::GradientLayout& layout) const override {
    return reduction_.staging_numel(layout);
  }
  bool begin_write(Readers readers) override { return parameters_->begin_write(readers); }
  void publish() override { parameters_->publish(); }
  void begin_gather(const torch::Tensor&, Order order) override { parameters_->begin_gather(order); }
  void* wait_gather() override { return parameters_->wait_gather(); }
  void release() override { parameters_->release(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override { return reduction_.wait_begun() ? Begun::Yes : Begun::PeerStalls; }
  void wait_reduce() override { reduction_.wait(); }
  void wait_sum() override { reduction_.wait_sum(); }
  bool sum_is_complete() override { return spec_.layout.shards() == spec_.layout.ranks(); }

 private:
  std::shared_ptr<HostsContext> context_;
  GroupUnitSpec spec_;
  shm::UnitMemory memory_;
  std::unique_ptr<HostsParameters> parameters_;
  HostsReduction reduction_;
};

}  // namespace fsdp::collectives::hosts
