#include "collectives/shm/unit_reduction.h"

#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/patience.h"

namespace fsdp::collectives::shm {

namespace {

// A rank that waits for so long waits for what does not come by itself.
constexpr std::chrono::milliseconds kStalled{20};

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

SharedMemoryReduction::SharedMemoryReduction(HostGradients gradients, std::vector<int> replicas)
    : gradients_(std::move(gradients)), replicas_(std::move(replicas)) {}

void SharedMemoryReduction::begin(const layout::GradientLayout& layout, uint64_t address,
                                  const std::vector<uint8_t>& present, float* sum, std::vector<uint8_t>& held) {
  gradients_.ranks().advance();
  layout_ = &layout;
  sum_ = sum;
  held_ = &held;
  summed_ = false;
  gradients_.offer(address, present);
  if (!advance()) gradients_.ranks().add(*this);
}

bool SharedMemoryReduction::advance() {
  if (!gradients_.all_have_offered()) return false;
  add_up();
  summed_ = true;
  gradients_.take();
  return true;
}

// Within this rank's sum.
float* SharedMemoryReduction::summed_slice(int rank) const {
  return sum_ + (layout_->slice_of(rank).begin - layout_->shard_of(this->rank()).begin);
}

// The copy of it that the rank shows to its replicas.
float* SharedMemoryReduction::shown_slice(int rank) const {
  const UnitMember& member = gradients_.member(rank);
  return reinterpret_cast<float*>(member.memory->at(member.control->sums));
}

// Every replica is through with the sums of the reduction before, since it has offered this one.
void SharedMemoryReduction::add_up() {
  for (int peer : gradients_.ranks().peers())
    check_same_left_out(gradients_.presence_of(rank()), gradients_.presence_of(peer), peer, gradients_.unit());
  gradients_.find(*layout_, rank(), slice_);
  float* sums = summed_slice(rank());
  add_in_order(sums, *held_, slice_.segments, slice_.addends, gradients_.type());
  const int64_t numel = layout_->slice_of(rank()).numel();
  if (!replicas_.empty() && numel > 0) std::memcpy(shown_slice(rank()), sums, numel * sizeof(float));
}

bool SharedMemoryReduction::wait_begun() {
  Ranks& ranks = gradients_.ranks();
  const PhaseScope phase(ranks, Phase::AwaitsReduction);
  StallDetector stalled;
  return ranks.wait_unless(
      ranks.peers(), gradients_.purpose(), [this](int rank) { return gradients_.has_offered(rank); },
      [&] { return stalled(ranks, ranks.missing()); });
}

void SharedMemoryReduction::wait() {
  Ranks& ranks = gradients_.ranks();
  const PhaseScope phase(ranks, Phase::AwaitsReduction);
  ranks.wait(ranks.peers(), gradients_.purpose(), [this](int rank) { return gradients_.has_offered(rank); });
  ranks.advance();
  FSDP_INVARIANT(summed_, "a reduction that every rank has begun was not added up");
  gradients_.wait_taken();
  take_from_replicas();
  layout_ = nullptr;
}

// Every rank knows every rank's flags, so what a replica's slice holds is known without a word.
void SharedMemoryReduction::take_from_replicas() {
  for (int replica : replicas_) {
    const int64_t numel = layout_->slice_of(replica).numel();
    if (numel > 0) std::memcpy(summed_slice(replica), shown_slice(replica), numel * sizeof(float));
  }
}

}  // namespace fsdp::collectives::shm
