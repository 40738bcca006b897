// One unit's collectives on a device, over c10d's process groups.
//
// A gather is one all-gather, straight from the shards into the caller's buffer. A reduction is one reduce-scatter in
// place, without copies and casts. The gradients are where autograd wrote them, in the dtype of the wire, and the sum
// over the ranks replaces this rank's slice. The slice is added to the shard's sum on the caller's stream, when it is
// waited for. Where some parameters are frozen, slices differ in length, and one all-reduce takes the place. At the end
// of a backward replicas give each other the slices of their shard's sum.
//
// The flags of present gradients travel by the host's group, as a reduction of no elements. It shows when every rank
// has begun, finds ranks that diverged and names dead ones. While backwards repeat (RegularBackwards) the flags are
// known from the last one, and nothing is sent. If a rank has other gradients after all, the ranks find that at the end
// of the backward and correct the flags. Its values are right already: a gradient that a rank lacks is -0, which
// changes no sum. Reductions go out in the order that ReductionOrder finds. The sum over ranks is in the order that the
// process group adds them in, and in the wire's dtype.
//
// Shard and sum lie on the device, or both on the host. If on the host, a gather begins with a copy of the shard to its
// place in the buffer. A reduction ends with a copy of this rank's slice to the host, which adds it to the sum. The
// copies are on streams of their own: that to the device waits until the buffer is free, that to the host for the
// reduction.
//
// It has so many members because a reduction is two exchanges at once, that of the gradients on the device and that of
// their flags on the host. Either needs its own layout, values and sum.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "collectives/device/context.h"
#include "collectives/group.h"
#include "memory/side_stream.h"

namespace fsdp::collectives::device {

class DeviceUnit final : public UnitCollectives {
 public:
  DeviceUnit(std::shared_ptr<DeviceContext> context, const GroupUnitSpec& spec);
  ~DeviceUnit() override;

  Capabilities capabilities() const override {
    return {.into_buffer = has_peers() || on_host(),
            .one_sided = !has_peers(),
            .any_order = !has_peers(),
            .joins = has_peers()};
  }
  torch::Tensor shard() const override { return shard_; }
  UnitBytes bytes() const override { return {}; }
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  // The stream waits, and the host goes on.
  bool begin_write(Readers readers) override;
  void publish() override {}
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void join_gather(const torch::Tensor& spare) override;
  bool gather_stalls() override;
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override;
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override { return !channels_.replicas; }

  // Its reduction goes out now.
  void send();
  // Waits until every rank has begun its reduction, if one is under way; not while a peer stalls.
  Begun wait_begun_everywhere();

  int id() const { return spec_.id; }
  // True if it was reduced without flags in this backward.
  bool lacks_flags() const { return lacks_flags_; }
  // This rank's gradients of the first reduction in this backward.
  const std::vector<uint8_t>& present() const { return own_; }
  // Those of all ranks, from `begin` on. True if any flag of the sum was wrong.
  bool correct_flags(const std::vector<torch::Tensor>& all, size_t begin);
  void backward_ends(bool everywhere);

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  Work begun(const char* name, Work work) { return context_->begun(message_prefix(spec_.name), name, std::move(work)); }
  int rank() const { return context_->host().rank(); }
  bool has_peers() const { return spec_.layout.shards() > 1; }  // with whom this rank owns the whole unit
  bool on_host() const { return shard_.device() != context_->device(); }
  // Null where there are no peers.
  Work start_gather(torch::Tensor full);
  void clear_missing();
  void exchange_flags();
  void expect_flags();
  torch::Tensor own_slice_of(const torch::Tensor& sum) const;
  torch::Tensor reduced_slice();  // waits for it
  void add_to_sum(const torch::Tensor& added);
  void take_from_replicas();

  std::shared_ptr<DeviceContext> context_;
  GroupUnitSpec spec_;
  Channels channels_;
  torch::Tensor shard_;
  torch::Tensor buffer_;
  Work gather_;
  memory::Moment shard_is_copied_;  // to the device
  // On the host: the flags of the reduction under way, and whose there are.
  layout::UnitLayout flags_layout_;
  layout::GradientLayout flags_gradient_layout_;
  std::unique_ptr<UnitCollectives> flags_;
  GradientSum present_;
  bool flagged_ = true;                             // the reduction under way
  bool begun_everywhere_ = false;                   // the same
  bool reduced_ = false;                            // in this backward
  bool lacks_flags_ = false;                        // the same, without flags
  std::vector<uint8_t> own_;                        // flags of this rank's first reduction in this backward
  std::vector<uint8_t> any_;                        // of all ranks'
  std::vector<uint8_t> held_;                       // of the sum, but for that one
  std::vector<uint8_t> learned_own_, learned_any_;  // in the last backward; empty: not known
  Gradients gradients_;
  GradientSum* sum_ = nullptr;
  Work reduction_;
  const layout::GradientLayout* layout_ = nullptr;  // of the sum
  bool replicas_differ_ = false;                    // the sum lacks what they added up
};

}  // namespace fsdp::collectives::device
