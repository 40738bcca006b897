#include "plan/step_clock.h"

#include <gmock/gmock.h>

#include "plan/simulation.h"

namespace fsdp::plan {
namespace {

TEST(TransferStream, RunsTransfersOneAfterTheOther) {
  TransferStream stream;
  const size_t first = stream.begin(1, 2), second = stream.begin(1, 3), third = stream.begin(10, 1);
  EXPECT_EQ(stream.at(first).end, 3);
  EXPECT_EQ(stream.at(second).begin, 3);
  EXPECT_EQ(stream.at(second).end, 6);
  EXPECT_EQ(stream.at(third).begin, 10);
}

TEST(TransferStream, PutsOffTransfersBehindALateOne) {
  TransferStream stream;
  const size_t first = stream.begin(0, 2), second = stream.begin(0, 3), third = stream.begin(20, 1);
  stream.delay(first, 5);
  EXPECT_EQ(stream.at(first).begin, 5);
  EXPECT_EQ(stream.at(second).begin, 7);
  EXPECT_EQ(stream.at(second).end, 10);
  EXPECT_EQ(stream.at(third).begin, 20);
}

TEST(StepClock, SlowsComputationBesideTransfersAlone) {
  const StepDurations durations{.slowdown = 1};
  StepClock clock(durations);
  clock.gathers().begin(2, 4);  // from 2 to 6
  EXPECT_EQ(clock.launch(1, 5).end, 7) << "2 s alone, 2 s in 4 s, 1 s alone";
  EXPECT_EQ(clock.launch(1, 5).end, 12);
}

TEST(StepClock, CountsTransfersThatOverlapOnce) {
  const StepDurations durations{.slowdown = 1};
  StepClock clock(durations);
  clock.gathers().begin(0, 4);
  clock.reductions().begin(2, 4);  // together from 0 to 6
  EXPECT_EQ(clock.launch(1, 5).end, 8);
}

TEST(StepClock, WaitsForLaunchesOfSmallOperators) {
  const StepDurations durations{.launch = 2, .runs_ahead = true};
  StepClock clock(durations);
  EXPECT_EQ(clock.launch(10, 5).end, 20.5) << "the last is launched at 20";
  EXPECT_EQ(clock.launch(1, 100).end, 122) << "launched at 22";
  EXPECT_EQ(clock.launch(1, 1).end, 123);
  const auto spent = clock.take_spent();
  EXPECT_EQ(spent[static_cast<size_t>(Cause::Compute)], 106);
  EXPECT_EQ(spent[static_cast<size_t>(Cause::Idle)], 17);
}

TEST(StepClock, LetsTheHostWaitAloneIfItRunsAhead) {
  const StepDurations ahead{.runs_ahead = true}, together;
  StepClock device(ahead), processor(together);
  device.host_waits(7, Cause::Idle);
  processor.host_waits(7, Cause::Idle);
  EXPECT_EQ(device.now(), 0);
  EXPECT_EQ(processor.now(), 7);
}

}  // namespace
}  // namespace fsdp::plan
