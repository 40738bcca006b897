// The plan of activations, against a search through all plans.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "fsdp/activation_memory.h"
#include "fsdp/error.h"

namespace fsdp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Outcome {
  int64_t peak = 0, kept = 0;
  double seconds = 0;
};

// Moment by moment, as activation_memory.h says.
Outcome outcome_of(const ActivationTimeline& timeline, const std::vector<size_t>& chosen) {
  Outcome outcome;
  for (size_t moment = 0; moment <= chosen.size(); ++moment) {
    int64_t bytes = timeline.peaks[moment];
    for (size_t block = 0; block < moment; ++block) {
      bytes += timeline.blocks[block].choices[chosen[block]].kept_bytes;
    }
    if (moment < chosen.size()) bytes += timeline.blocks[moment].choices[chosen[moment]].backward_bytes;
    outcome.peak = std::max(outcome.peak, bytes);
  }
  for (size_t block = 0; block < chosen.size(); ++block) {
    outcome.seconds += timeline.blocks[block].choices[chosen[block]].seconds;
    outcome.kept += timeline.blocks[block].choices[chosen[block]].kept_bytes;
  }
  return outcome;
}

Outcome outcome_of(const ActivationTimeline& timeline, const ActivationPlan& plan) {
  std::vector<size_t> chosen;
  for (size_t block = 0; block < plan.keep.size(); ++block) {
    const auto& choices = timeline.blocks[block].choices;
    chosen.push_back(std::ranges::find(choices, plan.keep[block], &BlockChoice::keep) - choices.begin());
  }
  return outcome_of(timeline, chosen);
}

// Every plan's.
std::vector<Outcome> all_outcomes(const ActivationTimeline& timeline) {
  std::vector<Outcome> outcomes;
  std::vector<size_t> chosen(timeline.blocks.size(), 0);
  while (true) {
    outcomes.push_back(outcome_of(timeline, chosen));
    size_t block = 0;
    while (block < chosen.size() && ++chosen[block] == timeline.blocks[block].choices.size()) chosen[block++] = 0;
    if (block == chosen.size()) return outcomes;
  }
}

std::optional<double> least_seconds(const std::vector<Outcome>& outcomes, int64_t budget) {
  std::optional<double> least;
  for (const Outcome& outcome : outcomes) {
    if (outcome.peak <= budget) least = std::min(least.value_or(outcome.seconds), outcome.seconds);
  }
  return least;
}

class RandomTimelines {
 public:
  explicit RandomTimelines(uint64_t seed) : random_(seed) {}

  // Of up to 8 blocks, some of which are alike.
  ActivationTimeline next() {
    const auto blocks = static_cast<size_t>(up_to(8));
    ActivationTimeline timeline;
    int64_t held = up_to(20);
    for (size_t i = 0; i < blocks; ++i) {
      const bool as_before = i > 0 && up_to(2) == 2;
      timeline.blocks.push_back(as_before ? timeline.blocks.back() : block());
      held += up_to(5);
      timeline.peaks.push_back(held + timeline.blocks.back().choices.back().kept_bytes);
    }
    timeline.peaks.push_back(held + up_to(100));
    return timeline;
  }
  int64_t up_to(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }

 private:
  BudgetedBlock block() {
    const int64_t all = 1 + up_to(60);
    const double seconds = 0.001 * static_cast<double>(1 + up_to(1000));
    return {.name = "",
            .choices = {{.keep = KeptResults::None, .seconds = seconds},
                        {.keep = KeptResults::Products,
                         .kept_bytes = up_to(all + 10),
                         .backward_bytes = up_to(10),
                         .seconds = seconds * 0.01 * static_cast<double>(up_to(100))},
                        {.keep = KeptResults::All, .kept_bytes = all}}};
  }

  std::mt19937_64 random_;
};

TEST(ActivationPlans, AreTheFastestOfAllWithinTheBudget) {
  RandomTimelines random(/*seed=*/1);
  for (int example = 0; example < 300; ++example) {
    const ActivationTimeline timeline = random.next();
    const std::vector<Outcome> outcomes = all_outcomes(timeline);
    const int64_t least = std::ranges::min(outcomes, {}, &Outcome::peak).peak;
    for (int64_t budget = least; budget <= least + 400; budget += 1 + random.up_to(20)) {
      const ActivationPlan plan = plan_activations(timeline, budget);
      const Outcome outcome = outcome_of(timeline, plan);
      ASSERT_EQ(outcome.peak, plan.peak_bytes) << "example " << example << ", budget " << budget;
      ASSERT_LE(outcome.peak, budget) << "example " << example;
      ASSERT_DOUBLE_EQ(outcome.seconds, plan.seconds) << "example " << example << ", budget " << budget;
      // Sums of equal seconds in another order.
      ASSERT_NEAR(plan.seconds, *least_seconds(outcomes, budget), 1e-12) << "example " << example << ", " << budget;
    }
    EXPECT_THROW(plan_activations(timeline, least - 1), Error) << "example " << example;
  }
}

TEST(ActivationPlans, OfALargerBudgetAreNeverSlowerAndSaveNoLess) {
  RandomTimelines random(/*seed=*/2);
  for (int example = 0; example < 200; ++example) {
    const ActivationTimeline timeline = random.next();
    int64_t budget = std::ranges::min(all_outcomes(timeline), {}, &Outcome::peak).peak;
    ActivationPlan before = plan_activations(timeline, budget);
    for (int step = 0; step < 200; ++step) {
      const ActivationPlan plan = plan_activations(timeline, ++budget);
      ASSERT_LE(plan.seconds, before.seconds) << "example " << example << ", budget " << budget;
      ASSERT_GE(plan.peak_bytes, before.peak_bytes) << "example " << example << ", budget " << budget;
      before = plan;
    }
  }
}

ActivationTimeline equal_blocks(size_t count) {
  const BudgetedBlock block{.name = "block",
                            .choices = {{.keep = KeptResults::None, .seconds = 10},
                                        {.keep = KeptResults::Products, .kept_bytes = 6, .seconds = 1},
                                        {.keep = KeptResults::All, .kept_bytes = 15}}};
  ActivationTimeline timeline;
  for (size_t i = 0; i < count; ++i) {
    timeline.blocks.push_back(block);
    timeline.peaks.push_back(static_cast<int64_t>(i) + 16);
  }
  timeline.peaks.push_back(static_cast<int64_t>(count) + 40);
  return timeline;
}

// A transformer's: whoever keeps more, it does so where the fewest bytes are beside it.
TEST(ActivationPlans, OfEqualBlocksGrowWithTheBudget) {
  const ActivationTimeline timeline = equal_blocks(4);
  const auto kept = [&](int64_t budget) { return outcome_of(timeline, plan_activations(timeline, budget)).kept; };
  int64_t before = 0;
  for (int64_t budget = 44; budget <= 44 + 4 * 15; ++budget) {
    EXPECT_GE(kept(budget), before) << budget;
    EXPECT_LE(kept(budget), budget - 44);
    before = kept(budget);
  }
  EXPECT_EQ(before, 4 * 15);
  EXPECT_EQ(kept(44), 0);
  EXPECT_EQ(plan_activations(timeline, 44 + 4 * 6).seconds, 4);
}

TEST(ActivationPlans, OfAHundredEqualBlocksAreExact) {
  const ActivationTimeline timeline = equal_blocks(100);
  // 60 bytes a multiple of both sizes: products are kept everywhere, and everything in the rest.
  const ActivationPlan plan = plan_activations(timeline, 140 + 100 * 6 + 9 * 20);
  EXPECT_DOUBLE_EQ(plan.seconds, 80);
  EXPECT_EQ(std::ranges::count(plan.keep, KeptResults::All), 20);
}

// Of 2^20 plans none is worse than another in both bytes and seconds: too many to keep.
TEST(ActivationPlans, OfManyDifferentBlocksAreWithinThreePercent) {
  ActivationTimeline timeline;
  constexpr int64_t kBlocks = 20, kAll = (int64_t{1} << kBlocks) - 1;
  for (int64_t i = 0; i < kBlocks; ++i) {
    const int64_t size = int64_t{1} << i;
    timeline.blocks.push_back({.name = "",
                               .choices = {{.keep = KeptResults::None, .seconds = static_cast<double>(size)},
                                           {.keep = KeptResults::All, .kept_bytes = size}}});
  }
  timeline.peaks.assign(kBlocks + 1, 0);
  int inexact = 0;
  double before = static_cast<double>(kAll);
  for (int64_t budget = 0; budget <= kAll; budget += 54'321) {
    const ActivationPlan plan = plan_activations(timeline, budget);
    const auto least = static_cast<double>(kAll - budget);
    EXPECT_LE(outcome_of(timeline, plan).peak, budget);
    EXPECT_LE(plan.seconds, 1.03 * least) << budget;
    EXPECT_LE(plan.seconds, before) << budget;
    if (plan.seconds > least) ++inexact;
    before = plan.seconds;
  }
  EXPECT_GT(inexact, 0);
}

TEST(ActivationPlans, SayTheLeastBudget) {
  EXPECT_THAT([] { plan_activations(equal_blocks(4), 43); },
              ThrowsMessage<Error>(HasSubstr("found a budget of 43 bytes, expected at least 44")));
  EXPECT_THAT(plan_activations(equal_blocks(2), 1000).keep, ElementsAre(KeptResults::All, KeptResults::All));
  EXPECT_EQ(plan_activations({.blocks = {}, .peaks = {7}}, 7).peak_bytes, 7);
}

TEST(ActivationPlans, RefuseATimelineThatCannotBe) {
  ActivationTimeline timeline = equal_blocks(2);
  timeline.peaks.pop_back();
  EXPECT_THAT([&] { plan_activations(timeline, 1000); }, ThrowsMessage<Error>(HasSubstr("found 2 peaks of 2 blocks")));
  timeline.peaks.push_back(0);
  timeline.blocks[1].choices.clear();
  EXPECT_THAT([&] { plan_activations(timeline, 1000); }, ThrowsMessage<Error>(HasSubstr("has no choice")));
}

}  // namespace
}  // namespace fsdp
