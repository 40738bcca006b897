#include "collectives/unit_exchange.h"

#include <cstring>
#include <exception>
#include <utility>

#include "base/error.h"
#include "collectives/element_type.h"
#include "collectives/shapes.h"
#include "memory/mapped_tensor.h"

namespace fsdp::collectives {

UnitExchange::UnitExchange(std::shared_ptr<Wire> wire, GroupUnitSpec spec)
    : wire_(std::move(wire)),
      spec_(std::move(spec)),
      shard_(spec_.backing->zeros(spec_.layout.shard_numel(), torch::dtype(spec_.dtype))),
      replica_sums_(*wire_, spec_.layout, spec_.id) {
  check_ranks(wire_->size(), spec_);
  check_number(spec_);
  const layout::UnitLayout& layout = spec_.layout;
  for (int peer : wire_->peers()) {
    if (layout.group_index(peer) == layout.group_index(rank())) shard_peers_.push_back(peer);
  }
}

UnitExchange::~UnitExchange() {
  // A peer may be late with a gather that this rank has begun, or long finished. It either comes or goes away itself.
  if (wire_->failed() || std::uncaught_exceptions() > 0) return;
  try {
    wire_->wait_all(gather_receives_);
    wire_->wait_all(gather_sends_);
  } catch (const std::exception&) {
    // Its later users get the error.
  }
}

int UnitExchange::tag(UnitMessage kind) const { return tag_of(spec_.id, kind); }

bool UnitExchange::begin_write(Readers) {
  wire_->guarded(message_prefix(spec_.name), "waiting for the readers of this rank's shard",
                 [&] { wire_->wait_all(gather_sends_); });
  return true;
}

void UnitExchange::begin_gather(const torch::Tensor& buffer, Order order) {
  FSDP_INVARIANT(gather_receives_.empty(), "unit {} is being gathered already", spec_.name);
  memory::read_ahead(shard_);
  if (!has_peers()) return;
  check_buffer(buffer, spec_);
  wire_->guarded(message_prefix(spec_.name), "gather", [&] {
    const bool of_all = static_cast<int>(shard_peers_.size()) + 1 == wire_->size();
    if (order == Order::Common)
      wire_->begins(fmt::format("gathers unit {}", spec_.name), of_all ? Among::All : Among::Some);
    wire_->wait_all(gather_sends_);
    buffer_ = buffer;
    exchange_shards(buffer_);
  });
}

void UnitExchange::exchange_shards(const torch::Tensor& buffer) {
  auto place = [&](int rank) {
    return static_cast<char*>(buffer.mutable_data_ptr()) + spec_.layout.shard_index(rank) * shard_bytes();
  };
  for (int peer : shard_peers_)
    gather_receives_.push_back(wire_->receive(place(peer), shard_bytes(), peer, tag(UnitMessage::Gather)));
  for (int peer : shard_peers_)
    gather_sends_.push_back(wire_->send(shard_.const_data_ptr(), shard_bytes(), peer, tag(UnitMessage::Gather)));
  if (shard_bytes() > 0) std::memcpy(place(rank()), shard_.const_data_ptr(), shard_bytes());
}

// Messages of one kind match in their order, so this rank's own gather ends first.
void UnitExchange::join_gather(const torch::Tensor& spare) {
  check_buffer(spare, spec_);
  wire_->guarded(message_prefix(spec_.name), "gather", [&] {
    wire_->wait_all(gather_receives_);
    wire_->wait_all(gather_sends_);
    exchange_shards(spare);
    wire_->wait_all(gather_receives_);
  });
}

bool UnitExchange::gather_stalls() {
  return wire_->guarded(message_prefix(spec_.name), "gather",
                        [&] { return !wire_->wait_unless_stalled(gather_receives_, shard_peers_); });
}

void* UnitExchange::wait_gather() {
  wire_->guarded(message_prefix(spec_.name), "gather", [&] { wire_->wait_all(gather_receives_); });
  return has_peers() ? buffer_.mutable_data_ptr() : shard_.mutable_data_ptr();
}

// Peers may still take from the shard, which stays what it is.
void UnitExchange::release() {
  buffer_ = torch::Tensor();
  memory::put_away(shard_);
}

void UnitExchange::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(reduce_messages_.empty(), "unit {} is being reduced already", spec_.name);
  check_shapes(gradients, sum, spec_);
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] {
    std::vector<std::vector<uint8_t>> present(wire_->size(), gradients.present);
    reduction_ = {std::move(gradients), &sum, std::move(present)};
    const int number = number_of(reduction_.gradients.layout->wanted());
    for (int peer : wire_->peers()) exchange_slices(peer, tag_of(spec_.id, UnitMessage::Slice, number));
  });
}

const void* UnitExchange::own_part(int rank) const {
  const Gradients& gradients = reduction_.gradients;
  return static_cast<const char*>(gradients.values.const_data_ptr()) +
         gradients.layout->slice_of(rank).begin * gradients.values.element_size();
}

void* UnitExchange::staged_part(int peer) const {
  const Gradients& gradients = reduction_.gradients;
  const int place = peer < rank() ? peer : peer - 1;
  return static_cast<char*>(gradients.staging.mutable_data_ptr()) +
         place * gradients.layout->slice_of(rank()).numel() * gradients.staging.element_size();
}

void UnitExchange::exchange_slices(int peer, int slice_tag) {
  std::vector<uint8_t>& theirs = reduction_.present[peer];
  const std::vector<uint8_t>& ours = reduction_.present[rank()];
  auto slice_bytes = [&](int rank) {
    const Gradients& gradients = reduction_.gradients;
    return static_cast<size_t>(gradients.layout->slice_of(rank).numel()) * gradients.values.element_size();
  };
  flags_.push_back(wire_->receive(theirs.data(), theirs.size(), peer, tag(UnitMessage::Flags)));
  auto& messages = reduce_messages_;
  messages.push_back(wire_->receive(staged_part(peer), slice_bytes(rank()), peer, slice_tag));
  messages.push_back(wire_->send(ours.data(), ours.size(), peer, tag(UnitMessage::Flags)));
  messages.push_back(wire_->send(own_part(peer), slice_bytes(peer), peer, slice_tag));
}

Begun UnitExchange::wait_begun() {
  return wire_->guarded(message_prefix(spec_.name), "reduce",
                        [&] { return wire_->wait_unless_stalled(flags_) ? Begun::Yes : Begun::PeerStalls; });
}

void UnitExchange::wait_reduce() {
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] {
    wire_->wait_all(flags_);
    for (int peer : wire_->peers()) {
      check_same_left_out(reduction_.present[rank()], reduction_.present[peer], wire_->name_of(peer), spec_.name);
    }
    wire_->wait_all(reduce_messages_);
    replica_sums_.wait();
    add_up();
    replica_sums_.begin(*reduction_.gradients.layout, reduction_.sum->values);
  });
  reduction_ = {};
}

void UnitExchange::wait_sum() {
  wire_->guarded(message_prefix(spec_.name), "reduce", [&] { replica_sums_.wait(); });
}

void UnitExchange::add_up() {
  const layout::GradientLayout& layout = *reduction_.gradients.layout;
  std::vector<layout::Range> segments;
  for (size_t i = 0; i < layout.parameters(); ++i) segments.push_back(layout.segment_of(i, rank()));
  std::vector<Addend> addends;
  for (int from = 0; from < wire_->size(); ++from)
    addends.push_back({from == rank() ? own_part(rank()) : staged_part(from), reduction_.present[from]});
  const int64_t begin = layout.slice_of(rank()).begin - layout.shard_of(rank()).begin;  // of the slice, in the sum
  add_in_order(reduction_.sum->values.mutable_data_ptr<float>() + begin, reduction_.sum->held, segments, addends,
               element_type_of(spec_.gradient_dtype));
}

}  // namespace fsdp::collectives
