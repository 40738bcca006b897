#include "collectives/shm/unit_reduction.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/patience.h"

namespace fsdp::collectives::shm {

namespace {

// A rank that waits for so long waits for what does not come by itself.
constexpr std::chrono::milliseconds kStalled{20};

size_t bytes_of(ElementType type) { return type == ElementType::Float32 ? 4 : 2; }

// Whether some ranks have waited, in the same wait, from one question to a later one.
class StallDetector {
 public:
  bool operator()(const Ranks& ranks, std::span<const int> asked) {
    std::vector<uint64_t> now;
    for (int rank : asked) {
      const uint64_t phase = ranks.control_of(rank).phase.get();
      const bool runs = phase % static_cast<uint64_t>(Phase::Count) == static_cast<uint64_t>(Phase::Runs);
      if (runs) return seen_.clear(), false;
      now.push_back(phase);
    }
    if (now != seen_) patience_ = Patience(kStalled);
    seen_ = std::move(now);
    return patience_.is_over();
  }

 private:
  std::vector<uint64_t> seen_;
  Patience patience_{kStalled};
};

}  // namespace

SharedMemoryReduction::SharedMemoryReduction(Ranks& ranks, UnitCounters& counters, std::vector<UnitMember> members,
                                             ElementType type, const std::string& unit)
    : ranks_(&ranks),
      counters_(&counters),
      members_(std::move(members)),
      type_(type),
      unit_(unit),
      purpose_("reduces unit " + unit),
      has_replicas_(std::any_of(members_.begin(), members_.end(), [](const auto& member) { return member.replica; })),
      addends_(members_.size()) {}

void SharedMemoryReduction::begin(const layout::GradientLayout& layout, uint64_t gradients,
                                  const std::vector<uint8_t>& present, float* sum, std::vector<uint8_t>& held) {
  ranks_->advance();
  layout_ = &layout;
  sum_ = sum;
  held_ = &held;
  summed_ = false;
  segments_.clear();
  for (size_t i = 0; i < layout.parameters(); ++i) segments_.push_back(layout.segment_of(i, ranks_->rank()));
  UnitControl& own = *members_[ranks_->rank()].control;
  own.gradients = gradients;
  std::copy(present.begin(), present.end(), own.present());
  counters_->offer();
  ranks_->ring();
  if (!advance()) ranks_->add(*this);
}

bool SharedMemoryReduction::advance() {
  for (const UnitMember& member : members_) {
    if (!counters_->has_offered(*member.control)) return false;
  }
  add_up();
  summed_ = true;
  counters_->take();
  ranks_->ring();
  return true;
}

float* SharedMemoryReduction::summed_slice(int rank) const {
  return sum_ + (layout_->slice_of(rank).begin - layout_->shard_of(ranks_->rank()).begin);
}

// Every replica is through with the sums of the reduction before, since it has offered this one.
void SharedMemoryReduction::add_up() {
  const layout::Range slice = layout_->slice_of(ranks_->rank());
  const std::span<const uint8_t> ours{members_[ranks_->rank()].control->present(), layout_->parameters()};
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const UnitControl& control = *members_[rank].control;
    addends_[rank] = {members_[rank].memory->at(control.gradients) + slice.begin * bytes_of(type_),
                      {control.present(), layout_->parameters()}};
    check_same_left_out(ours, addends_[rank].present, static_cast<int>(rank), unit_);
  }
  float* sums = summed_slice(ranks_->rank());
  add_in_order(sums, *held_, segments_, addends_, type_);
  const UnitMember& own = members_[ranks_->rank()];
  if (has_replicas_ && slice.numel() > 0)
    std::memcpy(own.memory->at(own.control->sums), sums, slice.numel() * sizeof(float));
}

bool SharedMemoryReduction::wait_begun() {
  const PhaseScope phase(*ranks_, Phase::AwaitsReduction);
  StallDetector stalled;
  return ranks_->wait_unless(
      ranks_->peers(), purpose_, [this](int rank) { return counters_->has_offered(*members_[rank].control); },
      [&] { return stalled(*ranks_, ranks_->missing()); });
}

void SharedMemoryReduction::wait() {
  const PhaseScope phase(*ranks_, Phase::AwaitsReduction);
  ranks_->wait(ranks_->peers(), purpose_, [this](int rank) { return counters_->has_offered(*members_[rank].control); });
  ranks_->advance();
  FSDP_INVARIANT(summed_, "a reduction that every rank has begun was not added up");
  ranks_->wait(ranks_->peers(), purpose_, [this](int rank) { return counters_->has_taken(*members_[rank].control); });
  take_from_replicas();
  layout_ = nullptr;
}

// Every rank knows every rank's flags, so what a replica's slice holds is known without a word.
void SharedMemoryReduction::take_from_replicas() {
  for (int rank : ranks_->peers()) {
    const UnitMember& member = members_[rank];
    const int64_t numel = layout_->slice_of(rank).numel();
    if (!member.replica || numel == 0) continue;
    std::memcpy(summed_slice(rank), member.memory->at(member.control->sums), numel * sizeof(float));
  }
}

}  // namespace fsdp::collectives::shm
