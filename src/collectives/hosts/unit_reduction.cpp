#include "collectives/hosts/unit_reduction.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "collectives/element_type.h"

namespace fsdp::collectives::hosts {

HostsReduction::HostsReduction(HostsContext& context, std::vector<shm::UnitMember> members, const GroupUnitSpec& spec)
    : context_(&context),
      unit_(spec.id),
      prefix_(message_prefix(spec.name)),
      unit_name_(spec.name),
      purpose_("reduces unit " + spec.name),
      type_(element_type_of(spec.gradient_dtype)),
      members_(std::move(members)),
      counters_(*members_[context.number_on_host()].control),
      replica_sums_(*context.wire(), spec.layout, spec.id) {}

// This host's sums of its counterparts' slices, then the other hosts' sums of this rank's, all in fp32.
int64_t HostsReduction::staging_numel(const layout::GradientLayout& layout) const {
  int64_t numel = (context_->hosts() - 1) * layout.slice_of(context_->rank()).numel();
  for (int host = 0; host < context_->hosts(); ++host) numel += layout.slice_of(context_->counterpart(host)).numel();
  return numel * (type_ == ElementType::Float32 ? 1 : 2);
}

void HostsReduction::lay_out_staging() {
  const layout::GradientLayout& layout = *gradients_.layout;
  auto* place = static_cast<float*>(gradients_.staging.mutable_data_ptr());
  own_sums_.clear();
  host_sums_.clear();
  for (int host = 0; host < context_->hosts(); ++host) {
    own_sums_.push_back(place);
    place += layout.slice_of(context_->counterpart(host)).numel();
  }
  for (int host = 0; host < context_->hosts(); ++host) {
    host_sums_.push_back(host == context_->host() ? own_sums_[host] : place);
    if (host != context_->host()) place += layout.slice_of(context_->rank()).numel();
  }
}

void HostsReduction::begin(Gradients gradients, uint64_t address, GradientSum& sum) {
  gradients_ = std::move(gradients);
  sum_ = &sum;
  summed_ = false;
  // Never empty: a transport may skip empty messages, and these are to be waited for.
  present_.assign(context_->size(), gradients_.present);
  for (std::vector<uint8_t>& flags : present_) flags.push_back(1);
  lay_out_staging();
  shm::UnitControl& own = *members_[context_->number_on_host()].control;
  own.gradients = address;
  std::copy(gradients_.present.begin(), gradients_.present.end(), own.present());
  // Before the flags, so that whoever has the flags of all ranks finds what those of its host offer.
  counters_.offer();
  context_->ranks().ring();
  context_->on_wire(prefix_, "reduce", [&] {
    exchange_flags();
    receive_sums();
  });
  context_->ranks().advance();
  if (!advance()) context_->ranks().add(*this);
}

void HostsReduction::exchange_flags() {
  Wire& wire = *context_->wire();
  const std::vector<uint8_t>& ours = present_[context_->rank()];
  const int tag = tag_of(unit_, UnitMessage::Flags);
  for (int peer : wire.peers()) flags_.push_back(wire.receive(present_[peer].data(), present_[peer].size(), peer, tag));
  for (int peer : wire.peers()) sends_.push_back(wire.send(ours.data(), ours.size(), peer, tag));
}

void HostsReduction::receive_sums() {
  const size_t bytes = gradients_.layout->slice_of(context_->rank()).numel() * sizeof(float);
  for (int host = 0; host < context_->hosts(); ++host) {
    if (host == context_->host()) continue;
    receives_.push_back(context_->wire()->receive(host_sums_[host], bytes, context_->counterpart(host), slice_tag()));
  }
}

int HostsReduction::slice_tag() const {
  return tag_of(unit_, UnitMessage::Slice, number_of(gradients_.layout->wanted()));
}

std::vector<layout::Range> HostsReduction::segments_of(int rank) const {
  std::vector<layout::Range> segments;
  for (size_t i = 0; i < gradients_.layout->parameters(); ++i)
    segments.push_back(gradients_.layout->segment_of(i, rank));
  return segments;
}

// May run in the thread that makes progress, so a failure is kept for `wait`.
bool HostsReduction::advance() {
  for (const shm::UnitMember& member : members_) {
    if (!counters_.has_offered(*member.control)) return false;
  }
  try {
    add_up_host();
  } catch (...) {
    failure_ = std::current_exception();
  }
  summed_ = true;
  counters_.take();
  context_->ranks().ring();
  return true;
}

// The slices of the other hosts first, since they have the longer way.
void HostsReduction::add_up_host() {
  const layout::GradientLayout& layout = *gradients_.layout;
  const int64_t element = type_ == ElementType::Float32 ? 4 : 2;
  for (size_t number = 0; number < members_.size(); ++number) {
    check_same_left_out(gradients_.present, {members_[number].control->present(), layout.parameters()},
                        context_->rank_on(context_->host(), static_cast<int>(number)), unit_name_);
  }
  for (int i = 1; i <= context_->hosts(); ++i) {
    const int host = (context_->host() + i) % context_->hosts(), owner = context_->counterpart(host);
    const layout::Range slice = layout.slice_of(owner);
    std::vector<Addend> addends;
    for (const shm::UnitMember& member : members_) {
      const shm::UnitControl& control = *member.control;
      addends.push_back(
          {member.memory->at(control.gradients) + slice.begin * element, {control.present(), layout.parameters()}});
    }
    std::vector<uint8_t> held(layout.parameters());
    add_in_order(own_sums_[host], held, segments_of(owner), addends, type_);
    if (host == context_->host()) continue;
    sends_.push_back(context_->wire()->send(own_sums_[host], slice.numel() * sizeof(float), owner, slice_tag()));
  }
}

bool HostsReduction::wait_begun() {
  return context_->on_wire(prefix_, "reduce", [&] {
    const Progress::Scope going_on(context_->progress());
    return context_->wire()->wait_unless_stalled(flags_);
  });
}

void HostsReduction::wait() {
  context_->on_wire(prefix_, "reduce", [&] {
    context_->wait_all(flags_);
    for (int peer : context_->wire()->peers())
      check_same_left_out(gradients_.present, present_[peer], peer, unit_name_);
  });
  context_->ranks().advance();
  FSDP_INVARIANT(summed_, "a reduction that every rank has begun was not added up");
  context_->on_wire(prefix_, "reduce", [&] {
    if (failure_) std::rethrow_exception(failure_);
    context_->wait_all(receives_);
    context_->wait_all(sends_);
    replica_sums_.wait();
    add_up_hosts();
    replica_sums_.begin(*gradients_.layout, sum_->values);
  });
  context_->in_memory(prefix_, "reduce", [&] {
    context_->wait(context_->ranks().peers(), purpose_,
                   [this](int number) { return counters_.has_taken(*members_[number].control); });
  });
  gradients_ = {};
  sum_ = nullptr;
}

void HostsReduction::wait_sum() {
  context_->on_wire(prefix_, "reduce", [&] {
    const Progress::Scope going_on(context_->progress());
    replica_sums_.wait();
  });
}

// What some rank of the host has a gradient of.
std::vector<uint8_t> HostsReduction::present_on(int host) const {
  std::vector<uint8_t> present(gradients_.layout->parameters());
  for (int number = 0; number < context_->ranks_of_a_host(); ++number) {
    const std::vector<uint8_t>& theirs = present_[context_->rank_on(host, number)];
    for (size_t i = 0; i < present.size(); ++i) present[i] |= theirs[i] == kPresent;
  }
  return present;
}

void HostsReduction::add_up_hosts() {
  const layout::GradientLayout& layout = *gradients_.layout;
  std::vector<std::vector<uint8_t>> present;
  for (int host = 0; host < context_->hosts(); ++host) present.push_back(present_on(host));
  std::vector<Addend> addends;
  for (int host = 0; host < context_->hosts(); ++host) addends.push_back({host_sums_[host], present[host]});
  const int64_t begin = layout.slice_of(context_->rank()).begin - layout.shard_of(context_->rank()).begin;
  add_in_order(sum_->values.mutable_data_ptr<float>() + begin, sum_->held, segments_of(context_->rank()), addends);
}

}  // namespace fsdp::collectives::hosts
