// One unit's collectives over point-to-point messages.
//
// A gather is a receive from each peer, straight into its place in the buffer, and a send to each, straight from the
// shard. A reduction sends each peer its slice of the gradients, with a byte a parameter that says whether there is
// one, and adds up the own slice in rank order. Begun by one thread at a time; the transport moves the bytes meanwhile.
// Owns the shard, and holds on to the tensors of what is under way. The destructor lets peers read on from the shard
// until they have it, unless the group failed or the stack is being unwound.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/ordered_sum.h"
#include "collectives/tags.h"
#include "collectives/wire.h"

namespace fsdp::collectives {

class UnitExchange final : public UnitCollectives {
 public:
  UnitExchange(std::shared_ptr<Wire> wire, UnitSpec spec);
  ~UnitExchange() override;

  torch::Tensor shard() const override { return shard_; }
  void begin_write() override;
  void publish() override {}
  void begin_gather(const torch::Tensor& buffer) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void begin_reduce(const torch::Tensor& gradients, std::vector<uint8_t> present, const torch::Tensor& staging,
                    GradientSum& sum) override;
  void wait_reduce() override;

 private:
  // A reduction under way.
  struct Reduction {
    torch::Tensor gradients;
    torch::Tensor staging;
    GradientSum* sum = nullptr;
    std::vector<std::vector<uint8_t>> present;  // of each rank
  };

  size_t shard_bytes() const { return shard_.nbytes(); }
  size_t slice_bytes() const { return spec_.layout.shard_numel() * sizeof(float); }
  float* staged_part(int peer) const;  // where the peer's part of our slice arrives
  int tag(UnitMessage kind) const;
  void exchange_slices(int peer);
  void add_up();

  std::shared_ptr<Wire> wire_;
  UnitSpec spec_;
  std::vector<layout::Range> segments_;
  // Messages after the memory that they move: they are destroyed first.
  torch::Tensor shard_;
  torch::Tensor buffer_;
  Reduction reduction_;
  Messages gather_receives_;
  Messages gather_sends_;
  Messages reduce_messages_;
};

}  // namespace fsdp::collectives
