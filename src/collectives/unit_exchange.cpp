#include "collectives/unit_exchange.h"

#include <cstring>
#include <exception>
#include <utility>

#include "base/error.h"
#include "collectives/ordered_sum.h"

namespace fsdp::collectives {

UnitExchange::UnitExchange(std::shared_ptr<Wire> wire, UnitSpec spec)
    : wire_(std::move(wire)),
      spec_(std::move(spec)),
      shard_(torch::zeros({spec_.layout.shard_numel()}, torch::dtype(spec_.dtype))) {
  FSDP_INVARIANT(spec_.layout.ranks() == wire_->size(), "unit {} is laid out for {} ranks, the group has {}",
                 spec_.name, spec_.layout.ranks(), wire_->size());
  const layout::UnitLayout& layout = spec_.layout;
  for (size_t i = 0; i < layout.parameters(); ++i) segments_.push_back(layout.segment_of(i, rank()));
  for (int peer : wire_->peers()) {
    if (layout.group_index(peer) == layout.group_index(rank())) shard_peers_.push_back(peer);
    if (layout.shard_index(peer) == layout.shard_index(rank())) replica_peers_.push_back(peer);
  }
}

UnitExchange::~UnitExchange() {
  // A peer may be late with a gather that this rank has long finished. It either takes the shard or goes away itself.
  if (wire_->failed() || std::uncaught_exceptions() > 0) return;
  try {
    wait_all(gather_sends_);
  } catch (const std::exception&) {
    // Whoever still needs the group will be told.
  }
}

int UnitExchange::tag(UnitMessage kind) const { return tag_of(spec_.id, kind); }

float* UnitExchange::staged_part(int peer) const {
  int place = peer < rank() ? peer : peer - 1;
  return reduction_.staging.mutable_data_ptr<float>() + place * spec_.layout.slice_numel();
}

float* UnitExchange::summed_slice(GradientSum& sum, int replica) const {
  return sum.values.mutable_data_ptr<float>() + spec_.layout.slice_of(replica).begin -
         spec_.layout.shard_of(rank()).begin;
}

void UnitExchange::begin_write() {
  wire_->guarded(message_prefix(spec_.name), "waiting for the readers of this rank's shard",
                 [&] { wait_all(gather_sends_); });
}

void UnitExchange::begin_gather(const torch::Tensor& buffer) {
  FSDP_INVARIANT(gather_receives_.empty(), "unit {} is being gathered already", spec_.name);
  if (!gathers_into_buffer()) return;
  FSDP_INVARIANT(buffer.numel() == spec_.layout.full_numel() && buffer.scalar_type() == spec_.dtype,
                 "unit {} was given a buffer of {} elements, expected {}", spec_.name, buffer.numel(),
                 spec_.layout.full_numel());
  wire_->guarded(message_prefix(spec_.name), "gather", [&] {
    wait_all(gather_sends_);
    buffer_ = buffer;
    auto place = [&](int rank) {
      return static_cast<char*>(buffer_.mutable_data_ptr()) + spec_.layout.shard_index(rank) * shard_bytes();
    };
    for (int peer : shard_peers_)
      gather_receives_.push_back(wire_->receive(place(peer), shard_bytes(), peer, tag(UnitMessage::Gather)));
    for (int peer : shard_peers_)
      gather_sends_.push_back(wire_->send(shard_.const_data_ptr(), shard_bytes(), peer, tag(UnitMessage::Gather)));
    if (shard_bytes() > 0) std::memcpy(place(rank()), shard_.const_data_ptr(), shard_bytes());
  });
}

void* UnitExchange::wait_gather() {
  wire_->guarded(message_prefix(spec_.name), "gather", [&] { wait_all(gather_receives_); });
  return gathers_into_buffer() ? buffer_.mutable_data_ptr() : shard_.mutable_data_ptr();
}

void UnitExchange::begin_reduce(const torch::Tensor& gradients, std::vector<uint8_t> present,
                                const torch::Tensor& staging, GradientSum& sum) {
  FSDP_INVARIANT(reduce_messages_.empty(), "unit {} is being reduced already", spec_.name);
  FSDP_INVARIANT(gradients.numel() == spec_.layout.full_numel() && present.size() == segments_.size() &&
                     sum.held.size() == segments_.size(),
                 "unit {} was given {} gradients of {} parameters, expected {} of {}", spec_.name, gradients.numel(),
                 present.size(), spec_.layout.full_numel(), segments_.size());
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] {
    reduction_ = {gradients, staging, &sum, std::vector<std::vector<uint8_t>>(wire_->size(), present)};
    for (int peer : wire_->peers()) exchange_slices(peer);
  });
}

void UnitExchange::exchange_slices(int peer) {
  std::vector<uint8_t>& theirs = reduction_.present[peer];
  const std::vector<uint8_t>& ours = reduction_.present[rank()];
  const float* slice = reduction_.gradients.const_data_ptr<float>() + spec_.layout.slice_of(peer).begin;
  auto& messages = reduce_messages_;
  messages.push_back(wire_->receive(theirs.data(), theirs.size(), peer, tag(UnitMessage::Flags)));
  messages.push_back(wire_->receive(staged_part(peer), slice_bytes(), peer, tag(UnitMessage::Slice)));
  messages.push_back(wire_->send(ours.data(), ours.size(), peer, tag(UnitMessage::Flags)));
  messages.push_back(wire_->send(slice, slice_bytes(), peer, tag(UnitMessage::Slice)));
}

void UnitExchange::wait_reduce() {
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] {
    wait_all(reduce_messages_);
    wait_all(sum_messages_);
    add_up();
    exchange_sums(*reduction_.sum);
  });
  reduction_ = {};
}

void UnitExchange::wait_sum() {
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] { wait_all(sum_messages_); });
}

void UnitExchange::add_up() {
  const float* own = reduction_.gradients.const_data_ptr<float>() + spec_.layout.slice_of(rank()).begin;
  std::vector<Addend> addends;
  for (int from = 0; from < wire_->size(); ++from)
    addends.push_back({from == rank() ? own : staged_part(from), reduction_.present[from]});
  add_in_order(summed_slice(*reduction_.sum, rank()), reduction_.sum->held, segments_, addends);
}

// Every rank knows every rank's flags, so what each replica's slice holds is known without a word.
void UnitExchange::exchange_sums(GradientSum& sum) {
  const int tag = this->tag(UnitMessage::Sum);
  summed_ = sum.values;
  for (int peer : replica_peers_)
    sum_messages_.push_back(wire_->receive(summed_slice(sum, peer), slice_bytes(), peer, tag));
  for (int peer : replica_peers_)
    sum_messages_.push_back(wire_->send(summed_slice(sum, rank()), slice_bytes(), peer, tag));
}

}  // namespace fsdp::collectives
