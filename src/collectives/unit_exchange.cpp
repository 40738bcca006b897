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
  for (size_t i = 0; i < spec_.layout.parameters(); ++i) segments_.push_back(spec_.layout.piece_of(i, wire_->rank()));
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
  int place = peer < wire_->rank() ? peer : peer - 1;
  return reduction_.staging.mutable_data_ptr<float>() + place * spec_.layout.shard_numel();
}

void UnitExchange::begin_write() {
  wire_->guarded(message_prefix(spec_.name), "waiting for the readers of this rank's shard",
                 [&] { wait_all(gather_sends_); });
}

void UnitExchange::begin_gather(const torch::Tensor& buffer) {
  FSDP_INVARIANT(gather_receives_.empty(), "unit {} is being gathered already", spec_.name);
  FSDP_INVARIANT(buffer.numel() == spec_.layout.full_numel() && buffer.scalar_type() == spec_.dtype,
                 "unit {} was given a buffer of {} elements, expected {}", spec_.name, buffer.numel(),
                 spec_.layout.full_numel());
  wire_->guarded(message_prefix(spec_.name), "gather", [&] {
    wait_all(gather_sends_);
    buffer_ = buffer;
    auto place = [&](int rank) { return static_cast<char*>(buffer_.mutable_data_ptr()) + rank * shard_bytes(); };
    for (int peer : wire_->peers())
      gather_receives_.push_back(wire_->receive(place(peer), shard_bytes(), peer, tag(UnitMessage::Gather)));
    for (int peer : wire_->peers())
      gather_sends_.push_back(wire_->send(shard_.const_data_ptr(), shard_bytes(), peer, tag(UnitMessage::Gather)));
    if (shard_bytes() > 0) std::memcpy(place(wire_->rank()), shard_.const_data_ptr(), shard_bytes());
  });
}

void* UnitExchange::wait_gather() {
  wire_->guarded(message_prefix(spec_.name), "gather", [&] { wait_all(gather_receives_); });
  return buffer_.mutable_data_ptr();
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
  const std::vector<uint8_t>& ours = reduction_.present[wire_->rank()];
  const float* slice = reduction_.gradients.const_data_ptr<float>() + spec_.layout.shard_of(peer).begin;
  auto& messages = reduce_messages_;
  messages.push_back(wire_->receive(theirs.data(), theirs.size(), peer, tag(UnitMessage::Flags)));
  messages.push_back(wire_->receive(staged_part(peer), slice_bytes(), peer, tag(UnitMessage::Slice)));
  messages.push_back(wire_->send(ours.data(), ours.size(), peer, tag(UnitMessage::Flags)));
  messages.push_back(wire_->send(slice, slice_bytes(), peer, tag(UnitMessage::Slice)));
}

void UnitExchange::wait_reduce() {
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] {
    wait_all(reduce_messages_);
    add_up();
  });
  reduction_ = {};
}

void UnitExchange::add_up() {
  int rank = wire_->rank();
  const float* own = reduction_.gradients.const_data_ptr<float>() + spec_.layout.shard_of(rank).begin;
  std::vector<Addend> addends;
  for (int from = 0; from < wire_->size(); ++from)
    addends.push_back({from == rank ? own : staged_part(from), reduction_.present[from]});
  add_in_order(reduction_.sum->values.mutable_data_ptr<float>(), reduction_.sum->held, segments_, addends);
}

}  // namespace fsdp::collectives
