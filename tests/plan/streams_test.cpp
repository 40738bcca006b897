#include "plan/streams.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fsdp::plan {
namespace {

using enum Stream;

void expect_interval(const TaskInterval& interval, double begin, double end) {
  EXPECT_DOUBLE_EQ(interval.begin, begin);
  EXPECT_DOUBLE_EQ(interval.end, end);
}

TEST(Streams, RunTheirTasksInOrder) {
  const auto times = time_tasks({{Compute, 2}, {Compute, 3}, {Gather, 1}});
  expect_interval(times[0], 0, 2);
  expect_interval(times[1], 2, 5);
  expect_interval(times[2], 0, 1);
}

TEST(Streams, WaitForTasksOfOthers) {
  // A layer waits for its gather; the next gather runs beside it.
  const auto times = time_tasks({{Gather, 1}, {Compute, 3, {0}}, {Gather, 5}, {Compute, 3, {2}}});
  expect_interval(times[1], 1, 4);
  expect_interval(times[2], 1, 6);
  expect_interval(times[3], 6, 9);
}

TEST(Streams, SlowEachOtherDown) {
  // 4 s of computation, of which the first 2 s of work take 3 s beside 2 s of communication that take 3 s as well.
  const auto times = time_tasks({{Compute, 4}, {Reduce, 2}}, {.of_compute = 1.5, .of_communication = 1.5});
  expect_interval(times[1], 0, 3);
  expect_interval(times[0], 0, 5);
}

TEST(Streams, OfCommunicationDoNotSlowEachOther) {
  const auto times = time_tasks({{Gather, 2}, {Reduce, 3}}, {.of_compute = 2, .of_communication = 2});
  expect_interval(times[0], 0, 2);
  expect_interval(times[1], 0, 3);
}

TEST(Streams, ALaunchDelaysATask) {
  const auto times = time_tasks({{Host, 2}, {Compute, 1, {0}}, {Host, 2}, {Compute, 1, {2}}}, {.of_compute = 9});
  expect_interval(times[1], 2, 3);
  expect_interval(times[3], 4, 5);
}

TEST(Streams, OperatorsEndAfterTheirLastLaunch) {
  // The host takes longer than the device, then the device than the host, which runs ahead.
  const auto times =
      time_tasks({{Host, 5}, {Compute, 2, {}, {0}}, {Host, 1}, {Compute, 6, {0}, {2}}, {Gather, 1, {1}}});
  expect_interval(times[1], 0, 5);
  expect_interval(times[3], 5, 11);
  expect_interval(times[4], 5, 6);
}

TEST(Streams, TheLastOperatorFollowsItsLaunch) {
  const auto times = time_tasks({{Host, 5}, {Compute, 2, {}, {0}, 0.5}, {Compute, 1}});
  expect_interval(times[1], 0, 5.5);
  expect_interval(times[2], 5.5, 6.5);
}

TEST(Streams, ATaskThatWaitsToEndSlowsNothing) {
  const auto times = time_tasks({{Host, 4}, {Compute, 1, {}, {0}}, {Gather, 3}}, {.of_communication = 2});
  expect_interval(times[1], 0, 4);
  expect_interval(times[2], 0, 3.5);
}

TEST(Streams, TasksOfNoTimeAreOverAtOnce) {
  const auto times = time_tasks({{Compute, 0}, {Gather, 0, {0}}, {Compute, 1, {1}}});
  expect_interval(times[2], 0, 1);
}

TEST(Streams, RefuseNonsense) {
  EXPECT_THROW(time_tasks({{Compute, 1, {1}}, {Gather, 1, {0}}}), Error);
  EXPECT_THROW(time_tasks({{Compute, 1, {7}}}), Error);
  EXPECT_THROW(time_tasks({{Compute, 1, {}, {7}}}), Error);
  EXPECT_THROW(time_tasks({{Compute, 1, {}, {1}}, {Gather, 1, {0}}}), Error);
  EXPECT_THROW(time_tasks({{Compute, -1}}), Error);
  EXPECT_THROW(time_tasks({{Compute, 1, {}, {}, -1}}), Error);
  EXPECT_THROW(time_tasks({{Compute, 1}}, {.of_compute = 0.5}), Error);
}

}  // namespace
}  // namespace fsdp::plan
