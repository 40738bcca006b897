// Schedules in time.
#include "stages/timing.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "base/error.h"
#include "stages/rewrites.h"
#include "stages/support.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StageTimings, AreThoseOfASmallScheduleByHand) {
  const StageTiming timing = timing_of(one_forward_one_backward(2, 1, 2), {{1, 1, 1}, {2, 2, 1}}, /*message_time=*/0.5);
  const auto starts = [&](int rank) {
    std::vector<double> values;
    for (const StageTiming::Interval& interval : timing.intervals[rank]) values.push_back(interval.start);
    return values;
  };
  EXPECT_THAT(starts(0), ElementsAre(0, 1, 7, 12));         // 0F0 0F1 0B0 0B1
  EXPECT_THAT(starts(1), ElementsAre(1.5, 3.5, 6.5, 8.5));  // 1F0 1B0 1F1 1B1
  EXPECT_EQ(timing.makespan, 14);
  EXPECT_THAT(timing.idle_shares, ElementsAre(DoubleEq(1 - 6 / 14.0), DoubleEq(1 - 10 / 14.0)));
  EXPECT_DOUBLE_EQ(timing.idle_share, 1 - 16 / 28.0);
  EXPECT_THAT(timing.peak_of_stage, ElementsAre(2, 1));
}

TEST(StageTimings, AreTheSameWithMessages) {
  for (const NamedSchedule& named : named_schedules()) {
    for_all_counts(named, {4, 2, 6}, [&](Counts counts, const StageSchedule& schedule) {
      const StageSchedule complete = add_messages(add_gathers(schedule));
      const std::vector<StageTimes> times = equal_times(schedule, {2, 2, 1});
      EXPECT_EQ(timing_of(complete, times, 0.25).makespan, timing_of(schedule, times, 0.25).makespan)
          << named.name << ", " << counts.text();
    });
  }
}

TEST(StageTimings, HaveMessagesFromTheirSendToTheirArrival) {
  const StageSchedule schedule = read_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const StageTiming timing = timing_of(schedule, equal_times(schedule, {1, 1, 1}), 2);
  EXPECT_EQ(timing.intervals[0][1].start, 1);
  EXPECT_EQ(timing.intervals[1][0].end, 3);
  EXPECT_EQ(timing.intervals[1][1].start, 3);
  EXPECT_EQ(timing.intervals[1][3].end, 8);
  EXPECT_EQ(timing.intervals[0][2].start, 6);
  EXPECT_EQ(timing.makespan, 10);
}

// A send that stands behind another pass leaves after it.
TEST(StageTimings, LetAMessageLeaveAtItsSend) {
  const StageSchedule schedule = read_csv(
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
  EXPECT_EQ(timing_with(schedule, {1, 1, 0}).intervals[1][1].start, 2);
}

// The second forward of rank 0 and the first backward of rank 1 take longer than the others.
TEST(StageTimings, OfPassesAreThoseOfASmallScheduleByHand) {
  const StageSchedule schedule = one_forward_one_backward(2, 1, 2);  // 0F0 0F1 0B0 0B1, 1F0 1B0 1F1 1B1
  const StageTiming timing = timing_of_passes(schedule, {1, 3, 2, 2, 1, 4, 1, 2});
  EXPECT_EQ(timing.intervals[1][2].start, 6);
  EXPECT_EQ(timing.makespan, 11);
  EXPECT_DOUBLE_EQ(timing.idle_share, 1 - 16 / 22.0);
}

TEST(SumOfPasses, IsByKind) {
  const auto sums = [](const char* csv, const std::vector<double>& times) {
    const StageTimes sum = sum_of_passes(read_csv(csv).ranks[0], times);
    return std::vector{sum.forward, sum.input_gradient, sum.weight_gradient};
  };
  EXPECT_EQ(sums("0F0,0F1,0I0,0W0,0I1,0W1\n", {1, 2, 4, 8, 16, 32}), (std::vector<double>{3, 20, 40}));
  EXPECT_EQ(sums("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", {1, 2}), (std::vector<double>{1, 2, 0}));
  EXPECT_THROW(sums("0F0,0B0\n", {1}), Error);
}

TEST(StageTimings, OfEqualPassesAreThoseOfEqualStages) {
  const std::map<StageAction::Kind, double> times = {{StageAction::Kind::Forward, 2},
                                                     {StageAction::Kind::Backward, 5},
                                                     {StageAction::Kind::InputGradient, 3},
                                                     {StageAction::Kind::WeightGradient, 2}};
  for (const NamedSchedule& named : named_schedules()) {
    for_all_counts(named, {4, 2, 6}, [&](Counts counts, const StageSchedule& schedule) {
      const StageSchedule complete = add_messages(schedule);
      std::vector<double> pass_times;
      for (const auto& actions : complete.ranks) {
        for (const StageAction& action : actions) {
          if (is_pass(action.kind)) pass_times.push_back(times.at(action.kind));
        }
      }
      EXPECT_EQ(timing_of_passes(complete, pass_times).idle_share,
                timing_of(schedule, equal_times(schedule, {2, 3, 2})).idle_share)
          << named.name << ", " << counts.text();
    });
  }
}

TEST(StageTimings, NeedATimeOfEachPass) {
  EXPECT_THAT(testing::message_of<Error>([] {
                timing_of_passes(one_at_a_time(2, 1, 1), {1, 1, 1});
              }),
              HasSubstr("found times of 3 passes, expected 4"));
  EXPECT_THAT(testing::message_of<Error>([] {
                timing_of_passes(one_at_a_time(1, 1, 1), {1, -1});
              }),
              HasSubstr("expected a finite one of at least 0"));
}

TEST(StageTimings, NeedTimesOfEachStageAndAScheduleThatCanRun) {
  EXPECT_THAT(testing::message_of<Error>([] {
                timing_of(one_at_a_time(2, 1, 1), {{1, 1, 1}});
              }),
              HasSubstr("found times of 1 stages, expected 2"));
  EXPECT_THAT(testing::message_of<Error>([] {
                timing_of(read_csv("0B0,0F0\n"), {{1, 1, 1}});
              }),
              HasSubstr("expected 0F0 before it"));
}

TEST(StageTimings, NeedFiniteTimes) {
  const double never = std::numeric_limits<double>::infinity();
  for (const StageTimes& times : {StageTimes{never, 1, 1}, StageTimes{1, -1, 1}, StageTimes{1, 1, never}})
    EXPECT_THAT(testing::message_of<Error>([&] { timing_with(one_at_a_time(1, 1, 1), times); }),
                HasSubstr("expected a finite one of at least 0"));
}

TEST(StageTimings, OfNoDurationAreNotIdle) {
  const StageTiming timing = timing_with(one_at_a_time(2, 1, 1), {});
  EXPECT_EQ(timing.makespan, 0);
  EXPECT_EQ(timing.idle_share, 0);
}

}  // namespace
}  // namespace fsdp::stages
