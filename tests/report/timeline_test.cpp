#include "report/timeline.h"

#include <gmock/gmock.h>

namespace fsdp::report {
namespace {

using ::testing::IsEmpty;

TEST(Timeline, ComputationLastsUntilAnotherUnitIsTouched) {
  Timeline timeline;
  timeline.computes(Activity::Forward, 0, 0);
  timeline.computes(Activity::Forward, 0, 0);
  const int64_t touched = now();
  timeline.computes(Activity::Forward, 1, touched);
  timeline.computes_nothing();
  const std::vector<Span> spans = timeline.take();
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0].unit, 0);
  EXPECT_EQ(spans[0].end, touched);
  EXPECT_EQ(spans[1].unit, 1);
  EXPECT_GE(spans[1].begin, touched);
  EXPECT_GE(spans[1].end, spans[1].begin);
}

// Each look stands at the time of the one before: its bytes are those in between.
TEST(Timeline, LooksAtMemoryBetweenComputations) {
  int64_t looks = 0;
  Timeline timeline([&] { return MemorySample{.activations = looks++}; });
  timeline.computes(Activity::Forward, 0, 0);
  timeline.computes(Activity::Forward, 0, 0);
  timeline.computes(Activity::Forward, 1, now());
  timeline.computes_nothing();
  timeline.computes_nothing();
  const std::vector<Span> spans = timeline.take();
  const std::vector<MemorySample> memory = timeline.take_memory();
  ASSERT_EQ(memory.size(), 3) << "before unit 0, behind it, and behind unit 1";
  for (size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(memory[i].activations, i + 1);
  EXPECT_LE(memory[1].time, spans[0].begin);
  EXPECT_GE(memory[2].time, spans[0].end);
  EXPECT_LE(memory[2].time, spans[1].begin);
}

TEST(Timeline, LeavesOutWhatHasNotEndedOrBeganBefore) {
  Timeline timeline;
  timeline.ends(Activity::Gather, 0);
  timeline.begins(Activity::Gather, 1);
  EXPECT_THAT(timeline.take(), IsEmpty());
}

}  // namespace
}  // namespace fsdp::report
