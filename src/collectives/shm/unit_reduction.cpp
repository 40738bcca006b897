#include "collectives/shm/unit_reduction.h"

#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/pace.h"
#include "base/patience.h"

namespace fsdp::collectives::shm {

namespace {

// A rank that waits for so long waits for what does not come by itself.
constexpr std::chrono::milliseconds kStalled{20};

// True if some ranks have waited, in the same wait, from one question to a later one.
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
    if (now != seen_) patience_ = Patience(paced(kStalled));
    seen_ = std::move(now);
    return patience_.is_over();
  }

 private:
  std::vector<uint64_t> seen_;
  Patience patience_{paced(kStalled)};
};

}  // namespace

SharedMemoryReduction::SharedMemoryReduction(HostGradients gradients, std::vector<int> replicas)
    : gradients_(std::move(gradients)), replicas_(std::move(replicas)) {}

void SharedMemoryReduction::begin(const layout::GradientLayout& layout, uint64_t address,
                                  const std::vector<uint8_t>& present, const SumOfShard& sum) {
  gradients_.ranks().advance();
  layout_ = &layout;
  sum_ = sum;
  summed_ = false;
  if (!replicas_.empty()) gradients_.show_sum(sum.address);
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

// Every replica has copied the sums of the reduction before, since it has offered this one.
void SharedMemoryReduction::add_up() {
  for (int peer : gradients_.ranks().peers())
    check_same_left_out(gradients_.presence_of(rank()), gradients_.presence_of(peer), gradients_.ranks().name_of(peer),
                        gradients_.unit());
  gradients_.find(*layout_, rank(), slice_);
  const int64_t begin = layout_->slice_of(rank()).begin - layout_->shard_of(rank()).begin;
  add_in_order(sum_.values + begin, *sum_.held, slice_.segments, slice_.addends, gradients_.type());
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
  copy_from_replicas();
  layout_ = nullptr;
}

// Every rank knows every rank's flags, so what a replica's slice holds is known without a word.
void SharedMemoryReduction::copy_from_replicas() {
  if (replicas_.empty()) return;
  for (int replica : replicas_) {
    const layout::Range slice = layout_->slice_of(replica);
    const int64_t begin = slice.begin - layout_->shard_of(rank()).begin;
    if (slice.numel() > 0)
      std::memcpy(sum_.values + begin, gradients_.sum_of(replica) + begin, slice.numel() * sizeof(float));
  }
  gradients_.copied();
}

}  // namespace fsdp::collectives::shm
