// The choice of what each block keeps, a knapsack with several choices per block (Sinha and Zoltners, "The
// multiple-choice knapsack problem", 1979) whose weight is not a sum but a peak.
//
// Going from the last block to the first, a front holds the possible choices for the blocks from here on. Each has its
// peak, if the earlier blocks keep only their inputs, and its extra time. None is worse than another in both. The block
// before adds its own bytes to all that comes after its forward. The first block's front knows no budget, so a larger
// one picks an entry further on in it.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "fsdp/activation_memory.h"

namespace fsdp {

namespace {

constexpr size_t kExactEntries = size_t{1} << 14;
constexpr double kTolerance = 1.03;  // of the time, where there are more

// A way to treat the blocks from one on.
struct FrontEntry {
  int64_t peak;
  double seconds;
  size_t choice;  // of that block
  size_t rest;    // of the others: number in their front
};

// Peaks rise, and seconds fall.
using Front = std::vector<FrontEntry>;

Front without_worse(Front all) {
  std::ranges::sort(all, [](const FrontEntry& a, const FrontEntry& b) {
    return std::tie(a.peak, a.seconds, a.choice, a.rest) < std::tie(b.peak, b.seconds, b.choice, b.rest);
  });
  Front front;
  for (const FrontEntry& entry : all) {
    if (front.empty() || entry.seconds < front.back().seconds) front.push_back(entry);
  }
  return front;
}

// Each that is left out is stood for by one of a lower peak, and of at most `factor` times its seconds.
Front thinned(const Front& front, double factor) {
  Front thin;
  for (const FrontEntry& entry : front) {
    if (thin.empty() || entry.seconds * factor < thin.back().seconds) thin.push_back(entry);
  }
  return thin;
}

Front front_of(const BudgetedBlock& block, int64_t peak, const Front& behind) {
  Front all;
  all.reserve(block.choices.size() * behind.size());
  for (size_t choice = 0; choice < block.choices.size(); ++choice) {
    const BlockChoice& keeps = block.choices[choice];
    for (size_t rest = 0; rest < behind.size(); ++rest) {
      all.push_back({.peak = std::max(peak + keeps.backward_bytes, keeps.kept_bytes + behind[rest].peak),
                     .seconds = keeps.seconds + behind[rest].seconds,
                     .choice = choice,
                     .rest = rest});
    }
  }
  return without_worse(std::move(all));
}

// By block, and one behind the last.
std::vector<Front> fronts_of(const ActivationTimeline& timeline) {
  const size_t blocks = timeline.blocks.size();
  std::vector<Front> fronts(blocks + 1);
  fronts[blocks] = {{.peak = timeline.peaks[blocks], .seconds = 0, .choice = 0, .rest = 0}};
  const double factor = std::pow(kTolerance, 1 / static_cast<double>(std::max<size_t>(blocks, 1)));
  for (size_t i = blocks; i-- > 0;) {
    fronts[i] = front_of(timeline.blocks[i], timeline.peaks[i], fronts[i + 1]);
    if (fronts[i].size() > kExactEntries) fronts[i] = thinned(fronts[i], factor);
  }
  return fronts;
}

void check_timeline(const ActivationTimeline& timeline) {
  FSDP_CHECK(timeline.peaks.size() == timeline.blocks.size() + 1,
             "plan_activations: found {} peaks of {} blocks, expected one more than there are blocks",
             timeline.peaks.size(), timeline.blocks.size());
  for (const BudgetedBlock& block : timeline.blocks) {
    FSDP_CHECK(!block.choices.empty(), "plan_activations: block {} has no choice, expected one at least", block.name);
  }
}

}  // namespace

ActivationPlan plan_activations(const ActivationTimeline& timeline, int64_t budget_bytes) {
  check_timeline(timeline);
  const std::vector<Front> fronts = fronts_of(timeline);
  const Front& front = fronts.front();
  const auto beyond = std::ranges::upper_bound(front, budget_bytes, {}, &FrontEntry::peak);
  FSDP_CHECK(
      beyond != front.begin(),
      "activation_memory: found a budget of {} bytes, expected at least {}: activations take so many where every "
      "block keeps its inputs alone, and runs again. Give as many, take smaller micro-batches, or make more of "
      "the model Recomputed.",
      budget_bytes, front.front().peak);
  const FrontEntry* entry = &*std::prev(beyond);
  ActivationPlan plan{.keep = {}, .peak_bytes = entry->peak, .seconds = entry->seconds};
  for (size_t i = 0; i < timeline.blocks.size(); ++i) {
    plan.keep.push_back(timeline.blocks[i].choices[entry->choice].keep);
    entry = &fronts[i + 1][entry->rest];
  }
  return plan;
}

}  // namespace fsdp
