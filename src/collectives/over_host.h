// The common part of staged.cpp and host_shards.cpp: a unit of the group on the CPU with its memory, and the calls on
// whole tensors.
//
// In both groups tensors lie on a device. They are exchanged over a group of the same ranks on the CPU.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"

namespace fsdp::collectives {

// A unit of the group on the CPU, with memory of the host for its gathers and reductions. Its owner declares it last:
// the reduction under way uses the owner's gradients and sum.
class HostUnit {
 public:
  // `pins`: gathers fill pinned memory.
  HostUnit(std::shared_ptr<Group> group, const GroupUnitSpec& spec, bool pins);

  UnitCollectives* operator->() const { return unit_.get(); }
  // Those of a unit on the device. `into_buffer` is the device's.
  Capabilities capabilities(bool into_buffer) const;
  // Memory that a reduction may be begun from.
  torch::Tensor allocate(int64_t numel, torch::ScalarType dtype) const;
  // Memory that a gather may fill.
  torch::Tensor full_unit() const;

  void begin_gather(Order order);
  // The full unit, until `release`.
  torch::Tensor wait_gather();
  void release();
  void join_gather();

  // `gradients` have their values in memory of `allocate`, and no staging.
  void begin_reduce(Gradients gradients, GradientSum& sum);

 private:
  std::shared_ptr<Group> group_;
  int64_t full_numel_;
  torch::ScalarType dtype_;
  bool pins_;
  torch::Tensor full_;  // of a gather under way, where the group needs a buffer
  std::unique_ptr<UnitCollectives> unit_;
};

// Whole tensors go through the host's memory, on the calling thread. A tensor on the CPU stays there.
class OperationsOverHost final : public TensorOperations {
 public:
  // `before_wait` comes before each call that waits for peers.
  OperationsOverHost(Group& host, std::function<void()> before_wait)
      : rank_(host.rank()), host_(host.tensors()), before_wait_(std::move(before_wait)) {}

  void compare(CallFacts* facts) override { host_.compare(facts); }
  void barrier() override;
  void all_reduce_(torch::Tensor& tensor, ReduceOp op) override;
  void broadcast_(torch::Tensor& tensor, int source) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override;
  bool exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                const std::string& purpose) override;
  std::unique_ptr<TensorMessage> send(const torch::Tensor& tensor, int peer, int tag) override;
  std::unique_ptr<TensorMessage> receive_(torch::Tensor& tensor, int peer, int tag) override;

 private:
  template <typename Exchange>
  void by_host_memory(torch::Tensor& tensor, Exchange&& exchange);

  int rank_;
  TensorOperations& host_;
  std::function<void()> before_wait_;
};

class GroupOverHost : public Group {
 public:
  GroupOverHost(std::shared_ptr<Group> host, torch::Device device)
      : host_(std::move(host)), device_(device), tensors_(*host_, [this] { before_wait(); }) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int name_of(int rank) const override { return host_->name_of(rank); }
  torch::Tensor allocate(int64_t bytes) override;
  int64_t buffer_bytes() const override { return host_->buffer_bytes(); }

  void note_call(const WorldCall* call) override { host_->note_call(call); }
  TensorOperations& tensors() override { return tensors_; }

 protected:
  const std::shared_ptr<Group>& host() const { return host_; }
  const torch::Device& device() const { return device_; }
  // Before each call that waits for peers.
  virtual void before_wait() {}

 private:
  std::shared_ptr<Group> host_;
  torch::Device device_;
  OperationsOverHost tensors_;
};

}  // namespace fsdp::collectives
