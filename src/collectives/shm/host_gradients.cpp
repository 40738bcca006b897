#include "collectives/shm/host_gradients.h"

#include <algorithm>
#include <utility>

namespace fsdp::collectives::shm {

HostGradients::HostGradients(Ranks& ranks, std::vector<UnitMember> members, ElementType type, std::string unit)
    : ranks_(&ranks),
      members_(std::move(members)),
      type_(type),
      unit_(std::move(unit)),
      purpose_("reduces unit " + unit_),
      counters_(*members_[ranks.rank()].control) {}

void HostGradients::offer(uint64_t address, std::span<const uint8_t> present) {
  UnitControl& own = *members_[ranks_->rank()].control;
  own.gradients = address;
  std::copy(present.begin(), present.end(), own.present());
  parameters_ = present.size();
  counters_.offer();
  ranks_->ring();
}

bool HostGradients::all_have_offered() const {
  return std::all_of(members_.begin(), members_.end(),
                     [this](const UnitMember& member) { return counters_.has_offered(*member.control); });
}

std::span<const uint8_t> HostGradients::presence_of(int number) const {
  return {std::as_const(*members_[number].control).present(), parameters_};
}

void HostGradients::find(const layout::GradientLayout& layout, int owner, OfferedSlice& slice) const {
  slice.segments.clear();
  for (size_t i = 0; i < layout.parameters(); ++i) slice.segments.push_back(layout.segment_of(i, owner));
  const size_t begin = layout.slice_of(owner).begin * bytes_of(type_);
  slice.addends.clear();
  for (size_t number = 0; number < members_.size(); ++number) {
    const UnitMember& member = members_[number];
    slice.addends.push_back(
        {member.memory->at(member.control->gradients) + begin, presence_of(static_cast<int>(number))});
  }
}

void HostGradients::take() {
  counters_.take();
  ranks_->ring();
}

void HostGradients::wait_taken() {
  ranks_->wait(ranks_->peers(), purpose_, [this](int peer) { return counters_.has_taken(*members_[peer].control); });
}

void HostGradients::show_sum(uint64_t address) { members_[ranks_->rank()].control->sum = address; }

float* HostGradients::sum_of(int number) const {
  const UnitMember& member = members_[number];
  return reinterpret_cast<float*>(member.memory->at(member.control->sum));
}

void HostGradients::copied() {
  counters_.copy();
  ranks_->ring();
}

bool HostGradients::is_copied(const std::vector<int>& replicas) const {
  return std::ranges::all_of(replicas, [this](int replica) { return has_copied(replica); });
}

void HostGradients::wait_copied(const std::vector<int>& replicas) {
  ranks_->wait(replicas, purpose_, [this](int replica) { return has_copied(replica); });
}

}  // namespace fsdp::collectives::shm
