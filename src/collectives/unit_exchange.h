// One unit's collectives over point-to-point messages.
//
// A gather is a receive from each peer of the shard group, directly into its place in the buffer, and a send to each,
// directly from the shard. For a unit of one shard it is the shard itself. A reduction sends each rank its slice of the
// gradients, with a flag per parameter for a present gradient. Each adds up its own slice in rank order, so that the
// sums do not depend on the grouping of ranks. Then replicas exchange the slices of their shard. Begun by one thread at
// a time; the transport moves the bytes meanwhile. Owns the shard, and holds on to the tensors of what is under way.
// The destructor ends a gather under way, and lets peers read on from the shard until they have it, unless the group
// failed or the stack is being unwound.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/replica_sums.h"
#include "collectives/tags.h"
#include "collectives/wire.h"

namespace fsdp::collectives {

class UnitExchange final : public UnitCollectives {
 public:
  UnitExchange(std::shared_ptr<Wire> wire, GroupUnitSpec spec);
  ~UnitExchange() override;

  Capabilities capabilities() const override {
    return {.into_buffer = has_peers(), .one_sided = !has_peers(), .any_order = true, .joins = true};
  }
  torch::Tensor shard() const override { return shard_; }
  UnitBytes bytes() const override { return {}; }
  int64_t staging_numel(const layout::GradientLayout& layout) const override {
    return layout.slice_of(rank()).numel() * (wire_->size() - 1);
  }
  // The peers take by themselves what they gather of this rank.
  bool begin_write(Readers readers) override;
  void publish() override {}
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override;
  void join_gather(const torch::Tensor& spare) override;
  bool gather_stalls() override;
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override;
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override { return !replica_sums_.under_way(); }

 private:
  // A reduction under way.
  struct Reduction {
    Gradients gradients;
    GradientSum* sum = nullptr;
    std::vector<std::vector<uint8_t>> present;  // of each rank
  };

  int rank() const { return wire_->rank(); }
  bool has_peers() const { return !shard_peers_.empty(); }
  size_t shard_bytes() const { return shard_.nbytes(); }
  const void* own_part(int rank) const;  // of our gradients: the rank's slice
  void* staged_part(int peer) const;     // where the peer's part of our slice arrives
  int tag(UnitMessage kind) const;
  void exchange_shards(const torch::Tensor& buffer);
  void exchange_slices(int peer, int slice_tag);
  void add_up();

  std::shared_ptr<Wire> wire_;
  GroupUnitSpec spec_;
  std::vector<int> shard_peers_;  // with whom this rank owns the whole unit
  // Messages after the memory that they move: they are destroyed first.
  torch::Tensor shard_;
  torch::Tensor buffer_;
  Reduction reduction_;
  Messages gather_receives_;
  Messages gather_sends_;
  Messages flags_;  // of each peer: it has begun
  Messages reduce_messages_;
  ReplicaSums replica_sums_;
};

}  // namespace fsdp::collectives
