#include "collectives/hosts/running_sums.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "collectives/tags.h"

namespace fsdp::collectives::hosts {

namespace {

using layout::Range;

// Long enough for a network, and short enough that every host soon has one.
constexpr int64_t kPieceNumel = 64 << 10;

// Piece `number` of a slice; empty behind its end.
Range piece_of(int64_t slice_numel, int64_t number) {
  const int64_t begin = std::min(number * kPieceNumel, slice_numel);
  return {begin, std::min(begin + kPieceNumel, slice_numel)};
}

}  // namespace

RunningSums::RunningSums(HostsContext& context, int unit, const shm::HostGradients& host_gradients,
                         const Gradients& gradients, const std::vector<std::vector<uint8_t>>& flags, torch::Tensor& sum)
    : context_(&context), unit_(unit), host_gradients_(&host_gradients), gradients_(&gradients), flags_(&flags) {
  const layout::GradientLayout& layout = *gradients.layout;
  const int rank = context.rank();
  own_sum_ = sum.mutable_data_ptr<float>() + (layout.slice_of(rank).begin - layout.shard_of(rank).begin);
}

int64_t RunningSums::staging_numel(const HostsContext& context, const layout::GradientLayout& layout,
                                   ElementType type) {
  int64_t numel = 0;
  for (int host = 0; host < context.hosts(); ++host) {
    if (host != context.host()) numel += layout.slice_of(context.counterpart(host)).numel();
  }
  return numel * static_cast<int64_t>(sizeof(float) / bytes_of(type));
}

int RunningSums::tag() const { return tag_of(unit_, UnitMessage::Slice, number_of(gradients_->layout->wanted())); }

bool RunningSums::holds_any(int rank) const {
  const layout::GradientLayout& layout = *gradients_->layout;
  for (size_t i = 0; i < layout.parameters(); ++i) {
    if (((*flags_)[rank][i] & kHeld) && layout.segment_of(i, rank).numel() > 0) return true;
  }
  return false;
}

void RunningSums::send_held() {
  const int rank = context_->rank();
  if (context_->host() == 0 || !holds_any(rank)) return;
  const int64_t numel = gradients_->layout->slice_of(rank).numel();
  for (int64_t number = 0; piece_of(numel, number).numel() > 0; ++number) {
    const Range piece = piece_of(numel, number);
    sends_.push_back(
        context_->wire()->send(own_sum_ + piece.begin, piece.numel() * sizeof(float), context_->counterpart(0), tag()));
  }
}

void RunningSums::run(BackgroundTask& task) {
  float* staging = static_cast<float*>(gradients_->staging.mutable_data_ptr());
  for (int host = 0; host < context_->hosts(); ++host) slices_.push_back(slice_of(host, staging));
  receive_pieces();
  receive_own_sum();
  for (Piece& piece : pieces_) {
    if (piece.arrival) task.wait_for(*piece.arrival);
    add(piece);
    pass_on(piece);
  }
}

void RunningSums::end(BackgroundTask& task) {
  for (const auto& message : own_sum_arrivals_) task.wait_for(*message);
  for (const auto& message : sends_) task.wait_for(*message);
}

RunningSums::Slice RunningSums::slice_of(int host, float*& staging) {
  const int owner = context_->counterpart(host);
  Slice slice;
  slice.owner = owner;
  slice.numel = gradients_->layout->slice_of(owner).numel();
  slice.held = held_before_this_host(owner);
  slice.sum = host == context_->host() ? own_sum_ : std::exchange(staging, staging + slice.numel);
  slice.starts_with_owner = host != 0 && holds_any(owner);
  host_gradients_->find(*gradients_->layout, owner, slice.offered);
  return slice;
}

std::vector<uint8_t> RunningSums::held_before_this_host(int owner) const {
  std::vector<uint8_t> held(gradients_->layout->parameters());
  for (size_t i = 0; i < held.size(); ++i) {
    held[i] = ((*flags_)[owner][i] & kHeld) != 0;
    for (int rank = 0; rank < context_->rank_on(context_->host(), 0); ++rank)
      held[i] |= presence_in((*flags_)[rank][i]) == kPresent;
  }
  return held;
}

std::unique_ptr<Message> RunningSums::receive(const Slice& slice, Range range, int from) {
  return context_->wire()->receive(slice.sum + range.begin, range.numel() * sizeof(float), from, tag());
}

// In the order in which the sender sends them.
void RunningSums::receive_pieces() {
  int64_t longest = 0;
  for (const Slice& slice : slices_) longest = std::max(longest, slice.numel);
  for (int64_t number = 0; piece_of(longest, number).numel() > 0; ++number) {
    for (Slice& slice : slices_) {
      const Range range = piece_of(slice.numel, number);
      if (range.numel() == 0) continue;
      Piece piece{&slice, range, nullptr};
      if (context_->host() > 0) {
        piece.arrival = receive(slice, range, context_->counterpart(context_->host() - 1));
      } else if (slice.starts_with_owner) {
        piece.arrival = receive(slice, range, slice.owner);
      }
      pieces_.push_back(std::move(piece));
    }
  }
}

// Into the place that the sum set out from: each piece comes back after it has left.
void RunningSums::receive_own_sum() {
  if (is_last()) return;
  const Slice& own = slices_[context_->host()];
  for (int64_t number = 0; piece_of(own.numel, number).numel() > 0; ++number)
    own_sum_arrivals_.push_back(
        receive(own, piece_of(own.numel, number), context_->counterpart(context_->hosts() - 1)));
}

void RunningSums::add(const Piece& piece) {
  const Slice& slice = *piece.slice;
  std::vector<Range> segments;
  for (const Range& segment : slice.offered.segments) segments.push_back(layout::intersect(segment, piece.range));
  std::vector<uint8_t> held = slice.held;
  add_in_order(slice.sum, held, segments, slice.offered.addends, host_gradients_->type());
}

void RunningSums::pass_on(const Piece& piece) {
  const Slice& slice = *piece.slice;
  if (is_last() && slice.owner == context_->rank()) return;
  const int to = is_last() ? slice.owner : context_->counterpart(context_->host() + 1);
  sends_.push_back(
      context_->wire()->send(slice.sum + piece.range.begin, piece.range.numel() * sizeof(float), to, tag()));
}

}  // namespace fsdp::collectives::hosts
