// Idle shares and peaks of activations beside the formulas of the papers.
#include <gmock/gmock.h>

#include "stages/support.h"

namespace fsdp::stages {
namespace {

constexpr double kRounding = 1e-12;

bool has_whole_groups(Counts counts) { return counts.micro_batches % counts.ranks == 0; }

class IdleShare : public ::testing::TestWithParam<NamedSchedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, IdleShare, ::testing::ValuesIn(named_schedules()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(IdleShare, IsThatOfTheFormula) {
  const std::string name(GetParam().name);
  const bool in_groups = name == "Interleaved" || name == "ZeroBubble";
  const StageTimes times{3, 4, 1};
  for_all_counts(GetParam(), {8, 4, 12}, [&](Counts counts, const StageSchedule& schedule) {
    const double measured = timing_with(schedule, times).idle_share;
    const double formula = idle_share_formula(name, counts.ranks, counts.stages_per_rank, counts.micro_batches, times);
    if (!in_groups || has_whole_groups(counts)) {
      EXPECT_NEAR(measured, formula, kRounding) << counts.text();
    } else {
      EXPECT_GE(measured, formula - kRounding) << counts.text();
    }
  });
}

TEST(IdleShareFormula, IsTheTextbooks) {
  EXPECT_DOUBLE_EQ(idle_share_formula("OneAtATime", 4, 2, 8), 1 - 1 / 4.0);
  EXPECT_DOUBLE_EQ(idle_share_formula("AllForwardAllBackward", 4, 1, 8), 3 / 11.0);
  EXPECT_DOUBLE_EQ(idle_share_formula("OneForwardOneBackward", 4, 1, 8), 3 / 11.0);
  EXPECT_DOUBLE_EQ(idle_share_formula("Interleaved", 4, 2, 8), 3 / 19.0);
  EXPECT_DOUBLE_EQ(idle_share_formula("ZeroBubble", 4, 1, 8), 1 / 9.0);
  EXPECT_DOUBLE_EQ(idle_share_formula("ZeroBubble", 4, 1, 8, {1, 1, 2}), 0);
  EXPECT_DOUBLE_EQ(idle_share_formula("ZeroBubble", 4, 1, 8, {1, 1, 3}), 0);
  EXPECT_THROW(idle_share_formula("ZeroBubble", 4, 1, 8, {0, 0, 0}), Error);
}

// The formula is (p - 1) (F + B - 2 W), where B is the whole backward: DualPipe's table. The paper on zero bubbles
// writes B for the input gradient, so its formula is (p - 1) (F + B - W).
TEST(ZeroBubbleTime, IsIdleByTheFormula) {
  for (const StageTimes& times : {StageTimes{1, 1, 1}, StageTimes{3, 4, 2}, StageTimes{5, 3, 1}}) {
    for_all_counts(named_schedule("ZeroBubble"), {6, 3, 18}, [&](Counts counts, const StageSchedule& schedule) {
      if (!has_whole_groups(counts)) return;
      const double backward = times.input_gradient + times.weight_gradient;
      const double idle = (counts.ranks - 1) * (times.forward + backward - 2 * times.weight_gradient);
      const double busy = counts.stages_per_rank * counts.micro_batches * (times.forward + backward);
      EXPECT_DOUBLE_EQ(timing_with(schedule, times).makespan, idle + busy) << counts.text();
    });
  }
}

TEST(ZeroBubbleTime, IsIdleAThirdOfOneForwardOneBackward) {
  const auto idle_time = [](const StageSchedule& schedule) {
    const StageTiming timing = timing_with(schedule, {1, 1, 1});
    return timing.idle_share * timing.makespan;
  };
  EXPECT_NEAR(3 * idle_time(zero_bubble(4, 1, 8)), idle_time(one_forward_one_backward(4, 1, 8)), kRounding);
}

// The most micro-batches that stages of a rank hold, as the papers say. For groups that are not whole: at most as many
// as for whole ones.
int formula_of_peak(const std::string& name, Counts counts, int rank) {
  const auto [p, v, m] = counts;
  const int whole = (m + p - 1) / p * p;
  if (name == "OneAtATime") return v;
  if (name == "AllForwardAllBackward") return v * m;
  if (name == "OneForwardOneBackward" || (name == "Interleaved" && v == 1)) return std::min(m, p - rank);
  if (name == "Interleaved") return std::min(v * whole, (v - 1) * p + 2 * (p - 1 - rank) + 1);
  return v * p;
}

TEST(PeakOfActivations, IsThatOfTheFormula) {
  for (const NamedSchedule& named : named_schedules()) {
    const std::string name(named.name);
    for_all_counts(named, {8, 4, 12}, [&](Counts counts, const StageSchedule& schedule) {
      const StageTiming timing = timing_with(schedule, {1, 1, 1});
      const bool exact = (name != "Interleaved" && name != "ZeroBubble") || has_whole_groups(counts);
      for (int rank = 0; rank < counts.ranks; ++rank) {
        const int formula = formula_of_peak(name, counts, rank);
        SCOPED_TRACE(name + ", " + counts.text());
        EXPECT_LE(timing.peak_of_rank[rank], formula);
        if (exact) {
          EXPECT_EQ(timing.peak_of_rank[rank], formula);
        }
      }
      for (int stage = 0; stage < schedule.stages(); ++stage) {
        EXPECT_LE(timing.peak_of_stage[stage], counts.micro_batches);
        if (counts.stages_per_rank == 1) {
          EXPECT_EQ(timing.peak_of_stage[stage], timing.peak_of_rank[stage]);
        }
      }
    });
  }
}

}  // namespace
}  // namespace fsdp::stages
