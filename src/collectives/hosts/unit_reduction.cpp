#include "collectives/hosts/unit_reduction.h"

#include <utility>

#include "base/error.h"
#include "collectives/element_type.h"

namespace fsdp::collectives::hosts {

HostsReduction::HostsReduction(HostsContext& context, const std::vector<shm::UnitMember>& members,
                               const GroupUnitSpec& spec)
    : context_(&context),
      unit_(spec.id),
      prefix_(message_prefix(spec.name)),
      host_gradients_(context.ranks(), members, element_type_of(spec.gradient_dtype), spec.name),
      replica_sums_(*context.wire(), spec.layout, spec.id),
      task_(context.threads()) {}

void HostsReduction::begin(Gradients gradients, uint64_t address, GradientSum& sum) {
  gradients_ = std::move(gradients);
  sum_ = &sum;
  // Never empty: a transport may skip empty messages, and these are to be waited for.
  flags_.assign(context_->size(), std::vector<uint8_t>(gradients_.present.size() + 1));
  std::vector<uint8_t>& own = flags_[context_->rank()];
  for (size_t i = 0; i < gradients_.present.size(); ++i) own[i] = gradients_.present[i] | (sum.held[i] ? kHeld : 0);
  // Before the flags, so that a rank with the flags of all ranks finds the offers of its host.
  host_gradients_.offer(address, gradients_.present);
  running_.emplace(*context_, unit_, host_gradients_, gradients_, flags_, sum.values);
  context_->on_wire(prefix_, "reduce", [&] {
    exchange_flags();
    running_->send_held();
  });
  replicas_ = replica_sums_.hand_over();
  task_.start([this] { run(); });
}

void HostsReduction::exchange_flags() {
  Wire& wire = *context_->wire();
  const std::vector<uint8_t>& ours = flags_[context_->rank()];
  const int tag = tag_of(unit_, UnitMessage::Flags);
  for (int peer : wire.peers())
    flags_arrivals_.push_back(wire.receive(flags_[peer].data(), flags_[peer].size(), peer, tag));
  for (int peer : wire.peers()) flags_sends_.push_back(wire.send(ours.data(), ours.size(), peer, tag));
}

// The task: the last peer's flags first, as `wait_begun` waits for them.
void HostsReduction::run() {
  for (; !flags_arrivals_.empty(); flags_arrivals_.pop_back()) {
    task_.wait_for(*flags_arrivals_.back());
    task_.step_is_done();
  }
  check_flags();
  // They are sent from the sums that are now added to.
  for (const auto& message : replicas_) task_.wait_for(*message);
  running_->run(task_);
  host_gradients_.take();
  running_->end(task_);
  for (const auto& message : flags_sends_) task_.wait_for(*message);
}

void HostsReduction::check_flags() const {
  for (int peer : context_->wire()->peers()) {
    std::vector<uint8_t> theirs;
    for (size_t i = 0; i < gradients_.present.size(); ++i) theirs.push_back(presence_in(flags_[peer][i]));
    check_same_left_out(gradients_.present, theirs, context_->wire()->name_of(peer), host_gradients_.unit());
  }
}

bool HostsReduction::wait_begun() {
  return context_->on_wire(prefix_, "reduce", [&] {
    const int peers = context_->size() - 1;
    Messages flags;
    for (int step = peers; step > task_.steps_done(); --step) flags.push_back(task_.steps(step));
    const Progress::Scope going_on(context_->progress());
    return context_->wire()->wait_unless_stalled(flags);
  });
}

void HostsReduction::wait() {
  context_->on_wire(prefix_, "reduce", [&] {
    Messages end;
    end.push_back(task_.end());
    context_->wait_all(end);
    note_held();
    replica_sums_.begin(*gradients_.layout, sum_->values);
  });
  running_.reset();
  replicas_.clear();
  flags_sends_.clear();
  context_->in_memory(prefix_, "reduce", [&] { host_gradients_.wait_taken(); });
  gradients_ = {};
  sum_ = nullptr;
}

void HostsReduction::note_held() {
  for (const std::vector<uint8_t>& flags : flags_) {
    for (size_t i = 0; i < sum_->held.size(); ++i) sum_->held[i] |= presence_in(flags[i]) == kPresent;
  }
}

void HostsReduction::wait_sum() {
  context_->on_wire(prefix_, "reduce", [&] {
    const Progress::Scope going_on(context_->progress());
    replica_sums_.wait();
  });
}

}  // namespace fsdp::collectives::hosts
