#include "collectives/device/unit.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "collectives/presence.h"
#include "collectives/shapes.h"

namespace fsdp::collectives::device {

namespace {

using layout::Range;

// As many parameters, of no elements.
layout::UnitLayout without_elements(const layout::UnitLayout& layout) {
  return {std::vector<int64_t>(layout.parameters()), layout.ranks(), layout.shards()};
}

enum class Addition { None, Store, Add };

Addition addition_of(bool present, bool held) {
  return !present ? Addition::None : held ? Addition::Add : Addition::Store;
}

}  // namespace

DeviceUnit::DeviceUnit(std::shared_ptr<DeviceContext> context, const GroupUnitSpec& spec)
    : context_(std::move(context)),
      spec_(spec),
      flags_layout_(without_elements(spec.layout)),
      flags_gradient_layout_(flags_layout_, std::vector<uint8_t>(spec.layout.parameters(), 1)) {
  const layout::UnitLayout& layout = spec_.layout;
  check_ranks(context_->host().size(), spec_);
  context_->guarded(message_prefix(spec_.name), "open", [&] {
    channels_ = context_->channels(layout);
    flags_ = context_->host().open_unit({.id = 2 * spec_.id, .name = spec_.name, .layout = flags_layout_});
    shard_ = spec_.backing->zeros(layout.shard_numel(), torch::dtype(spec_.dtype).device(context_->device()));
    context_->add(spec_.id, *this);
  });
  present_.values = torch::empty({0});
}

DeviceUnit::~DeviceUnit() { context_->remove(spec_.id); }

bool DeviceUnit::begin_write(Readers) {
  context_->guarded(message_prefix(spec_.name), "waiting for the readers of this rank's shard", [&] {
    if (gather_) gather_->wait();
    shard_is_copied_.wait_on_host();
  });
  return true;
}

void DeviceUnit::begin_gather(const torch::Tensor& buffer, Order) {
  FSDP_INVARIANT(!gather_, "unit {} is being gathered already", spec_.name);
  if (!capabilities().into_buffer) return;
  check_buffer(buffer, spec_);
  buffer_ = buffer;
  if (buffer_.numel() == 0) return;
  context_->guarded(message_prefix(spec_.name), "gather", [&] { gather_ = start_gather(buffer_); });
}

// On the stream of a copy the all-gather waits for that copy, and not for the computation.
DeviceUnit::Work DeviceUnit::start_gather(torch::Tensor full) {
  const auto all_gather = [&](torch::Tensor own) {
    return has_peers() ? begun("gather", channels_.gather->_allgather_base(full, own)) : Work();
  };
  if (!on_host()) return all_gather(shard_);
  torch::NoGradGuard no_grad;
  Work gather;
  const memory::Moment buffer_is_free = memory::Moment::of(memory::current_stream(context_->device()));
  shard_is_copied_ = context_->copies().to_device.run(buffer_is_free, [&] {
    torch::Tensor own = full.narrow(0, spec_.layout.shard_of(rank()).begin, shard_.numel());
    gather = all_gather(own.copy_(shard_, /*non_blocking=*/true));
  });
  return gather;
}

void* DeviceUnit::wait_gather() {
  if (!capabilities().into_buffer) return shard_.mutable_data_ptr();
  context_->guarded(message_prefix(spec_.name), "gather", [&] {
    if (const Work gather = std::exchange(gather_, {})) {
      gather->wait();
    } else {
      shard_is_copied_.hold(memory::current_stream(context_->device()));
    }
  });
  return buffer_.mutable_data_ptr();
}

void DeviceUnit::join_gather(const torch::Tensor& spare) {
  check_buffer(spare, spec_);
  if (spare.numel() == 0) return;
  context_->guarded(message_prefix(spec_.name), "gather", [&] {
    if (gather_) gather_->wait();
    if (const Work gather = start_gather(spare)) gather->wait();
  });
}

bool DeviceUnit::gather_stalls() {
  return gather_ && context_->guarded(message_prefix(spec_.name), "gather", [&] { return context_->stalls(*gather_); });
}

void DeviceUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(!gradients_.layout, "unit {} is being reduced already", spec_.name);
  check_shapes(gradients, sum, spec_);
  context_->guarded(message_prefix(spec_.name), "reduce", [&] {
    gradients_ = std::move(gradients);
    sum_ = &sum;
    layout_ = gradients_.layout;
    begun_everywhere_ = false;
    clear_missing();
    const bool first = !std::exchange(reduced_, true);
    flagged_ = !first || !context_->backwards().regular() || learned_own_.empty();
    context_->backwards().begin(spec_.id, first && gradients_.present == learned_own_);
    if (first) own_ = gradients_.present;
    flagged_ ? exchange_flags() : expect_flags();
    context_->begin_reduction(spec_.id);
  });
}

void DeviceUnit::exchange_flags() {
  present_.held.assign(layout_->parameters(), 0);
  const torch::Tensor nothing = context_->host().allocate(0).view(torch::kFloat32);
  flags_->begin_reduce({&flags_gradient_layout_, nothing, gradients_.present, nothing}, present_);
}

void DeviceUnit::expect_flags() {
  present_.held = learned_any_;
  held_ = sum_->held;
}

bool DeviceUnit::correct_flags(const std::vector<torch::Tensor>& all, size_t begin) {
  bool corrected = false;
  for (size_t i = 0; i < own_.size(); ++i) {
    any_[i] = std::ranges::any_of(
        all, [&](const torch::Tensor& one) { return one.const_data_ptr<uint8_t>()[begin + i] == kPresent; });
    if (any_[i] == learned_any_[i]) continue;
    sum_->held[i] = held_[i] | any_[i];
    corrected = true;
  }
  return corrected;
}

void DeviceUnit::backward_ends(bool everywhere) {
  if (!everywhere) learned_own_.clear();
  if (everywhere && reduced_) {
    learned_own_ = own_;
    learned_any_ = any_;
  }
  any_.clear();
  reduced_ = lacks_flags_ = false;
}

// Gradients that this rank lacks add nothing to the peers'.
void DeviceUnit::clear_missing() {
  for (size_t i = 0; i < layout_->parameters(); ++i) {
    if (!layout_->wanted()[i] || gradients_.present[i] != kMissing) continue;
    gradients_.values.narrow(0, layout_->offset_of(i), spec_.layout.numel_of(i)).fill_(-0.0);
  }
}

void DeviceUnit::send() {
  torch::Tensor& values = gradients_.values;
  if (values.numel() == 0) return;
  const std::vector<uint8_t>& wanted = layout_->wanted();
  if (!std::all_of(wanted.begin(), wanted.end(), [](uint8_t one) { return one != 0; })) {
    std::vector<torch::Tensor> whole{values};
    reduction_ = begun("reduce", channels_.reduce->allreduce(whole));
    return;
  }
  const int64_t each = spec_.layout.slice_numel(), all = each * spec_.layout.ranks();
  const auto room = static_cast<int64_t>(values.storage().nbytes() / values.element_size()) - values.storage_offset();
  FSDP_INVARIANT(room >= all, "unit {}: the gradients have room for {} elements, expected {}", spec_.name, room, all);
  torch::Tensor input = values.as_strided({all}, {1});
  torch::Tensor output = input.narrow(0, spec_.layout.slice_of(rank()).begin, each);
  reduction_ = begun("reduce", channels_.reduce->_reduce_scatter_base(output, input));
}

Begun DeviceUnit::wait_begun() {
  return context_->guarded(message_prefix(spec_.name), "reduce", [&] {
    return context_->held_back(spec_.id) ? Begun::HeldBack : context_->wait_sent(spec_.id);
  });
}

Begun DeviceUnit::wait_begun_everywhere() {
  const bool under_way = gradients_.layout != nullptr;
  if (!under_way || !flagged_ || begun_everywhere_) return Begun::Yes;
  const Begun begun = flags_->wait_begun();
  begun_everywhere_ = begun == Begun::Yes;
  return begun;
}

void DeviceUnit::wait_reduce() {
  const torch::Tensor reduced = context_->guarded(message_prefix(spec_.name), "reduce", [&] {
    // Before the wait for the peers' flags: a peer may wait on its device for what is held back here, and hears no
    // flags meanwhile.
    context_->flush(spec_.id);
    if (flagged_) flags_->wait_reduce();
    return reduced_slice();
  });
  // Nothing is added if the host's wait has ended because the reduction was given up.
  context_->guarded(message_prefix(spec_.name), "reduce", [&] { add_to_sum(reduced); });
  gradients_ = {};
}

torch::Tensor DeviceUnit::own_slice_of(const torch::Tensor& sum) const {
  const Range slice = layout_->slice_of(rank());
  return sum.narrow(0, slice.begin - layout_->shard_of(rank()).begin, slice.numel());
}

// On the device of the sum. A copy to the host waits for the reduction alone, and not for the computation.
torch::Tensor DeviceUnit::reduced_slice() {
  const Work reduction = std::exchange(reduction_, {});
  const Range slice = layout_->slice_of(rank());
  torch::Tensor reduced = gradients_.values.narrow(0, slice.begin, slice.numel());
  const auto wait = [&] {
    if (reduction) reduction->wait();
  };
  if (!on_host()) {
    wait();
    return reduced;
  }
  torch::NoGradGuard no_grad;
  torch::Tensor copy = torch::empty({reduced.numel()}, torch::dtype(reduced.dtype()).pinned_memory(true));
  const memory::Moment arrived = context_->copies().to_host.run({}, [&] {
    wait();
    copy.copy_(reduced, /*non_blocking=*/true);
  });
  arrived.wait_on_host();
  return copy;
}

// Neighbours that are treated alike are one run: usually all of them.
void DeviceUnit::add_to_sum(const torch::Tensor& added) {
  torch::NoGradGuard no_grad;
  const torch::Tensor sum = own_slice_of(sum_->values);
  Range run;
  Addition of_run = Addition::None;
  auto finish = [&] {
    torch::Tensor target = sum.slice(0, run.begin, run.end);
    if (of_run == Addition::Store) target.copy_(added.slice(0, run.begin, run.end));
    if (of_run == Addition::Add) target.add_(added.slice(0, run.begin, run.end));
  };
  for (size_t i = 0; i < layout_->parameters(); ++i) {
    const Range segment = layout_->segment_of(i, rank());
    if (segment.numel() == 0) continue;
    const bool comes = flagged_ ? present_.held[i] : layout_->wanted()[i];
    const Addition addition = addition_of(comes, sum_->held[i] || lacks_flags_);
    if (addition != of_run) {
      finish();
      of_run = addition;
      run.begin = segment.begin;
    }
    run.end = segment.end;
  }
  finish();
  for (size_t i = 0; i < layout_->parameters(); ++i) {
    sum_->held[i] |= present_.held[i];
    if (lacks_flags_) held_[i] |= present_.held[i];
  }
  if (any_.empty()) any_ = present_.held;
  lacks_flags_ |= !flagged_;
  replicas_differ_ = channels_.replicas != nullptr;
}

// All ranks come by the units in the same order here.
void DeviceUnit::wait_sum() {
  if (!std::exchange(replicas_differ_, false)) return;
  context_->guarded(message_prefix(spec_.name), "reduce", [&] {
    torch::NoGradGuard no_grad;
    flags_->wait_sum();
    if (layout_->full_numel() == 0) return;
    take_from_replicas();
  });
}

void DeviceUnit::take_from_replicas() {
  const layout::UnitLayout& unit = spec_.layout;
  const int64_t each = unit.slice_numel();
  const torch::Tensor ours = own_slice_of(sum_->values);
  // A slice of slice_numel from each replica.
  torch::Tensor sums = torch::empty({unit.shard_numel()}, torch::device(context_->device()));
  torch::Tensor own = sums.narrow(0, unit.group_index(rank()) * each, each);
  own.narrow(0, 0, ours.numel()).copy_(ours);
  begun("reduce", channels_.replicas->_allgather_base(sums, own))->wait();
  for (int peer = 0; peer < unit.ranks(); ++peer) {
    if (peer == rank() || unit.shard_index(peer) != unit.shard_index(rank())) continue;
    const Range theirs = layout_->slice_of(peer);
    const int64_t begin = theirs.begin - layout_->shard_of(rank()).begin;
    sum_->values.narrow(0, begin, theirs.numel()).copy_(sums.narrow(0, unit.group_index(peer) * each, theirs.numel()));
  }
}

}  // namespace fsdp::collectives::device
