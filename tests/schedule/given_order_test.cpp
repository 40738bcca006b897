// Steps whose forwards and backwards come in a given order, as a pipeline has it.
#include "schedule/given_order.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "schedule/script.h"

namespace fsdp::schedule {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kStageUnits = 3;

Facts facts_of_stages(int stages) { return facts_of_units(stages * kStageUnits); }

// "0F3": stage 0, forward, micro-batch 3.
std::vector<Segment> segments_of(const std::vector<std::string>& texts) {
  std::vector<Segment> segments;
  for (const std::string& text : texts)
    segments.push_back({.stage = text[0] - '0', .backward = text[1] == 'B', .micro_batch = text[2] - '0'});
  return segments;
}

const std::vector<std::string> kOneForwardOneBackward = {"0F0", "0F1", "0B0", "0F2", "0B1", "0F3", "0B2", "0B3"};
const std::vector<std::string> kInterleaved = {"0F0", "0F1", "1F0", "1F1", "1B0", "1B1", "0B0", "0B1"};
// More than eight different periods, of which a learnt plan knows the last eight.
const std::vector<std::string> kGrowing = {"0F0", "0B0", "0F1", "0F2", "0B1", "0F3", "0F4", "0F5", "0B2", "0B3",
                                           "0F6", "0F7", "0F8", "0F9", "0B4", "0B5", "0B6", "0B7", "0B8", "0B9"};

struct PipelineRank : ScriptedRank {
  PipelineRank(int stages, const std::vector<std::string>& order, Limits limits = {})
      : ScriptedRank(facts_of_stages(stages), limits), segments(segments_of(order)) {
    driver.give_order(segments);
  }
  void run(const Segment& segment) {
    driver.begin_micro_batch(segment.micro_batch);
    const UnitId first = segment.stage * kStageUnits;
    for (UnitId i = 0; i < kStageUnits; ++i) {
      if (segment.backward) {
        ScriptedRank::backward(first + kStageUnits - 1 - i);
      } else {
        use(first + i, Mode::Forward);
      }
    }
    if (segment.backward) driver.backward_ends();
    driver.end_micro_batch(std::nullopt);
  }
  void whole_step() {
    for (const Segment& segment : segments) run(segment);
    step();
  }
  // Gathers of a step that no plan foresaw.
  int64_t unforeseen() {
    const ExchangeCounts before = driver.counts();
    whole_step();
    const ExchangeCounts& after = driver.counts();
    return (after.gathers - before.gathers) - (after.foreseen_gathers - before.foreseen_gathers);
  }
  int64_t gathers() {
    const int64_t before = driver.counts().gathers;
    whole_step();
    return driver.counts().gathers - before;
  }

  std::vector<Segment> segments;
};

TEST(GivenOrder, IsForeseenFromTheSecondStepOn) {
  const std::vector<std::pair<int, std::vector<std::string>>> orders{
      {1, kOneForwardOneBackward}, {2, kInterleaved}, {1, kGrowing}};
  for (const auto& [stages, order] : orders) {
    for (FullUntil full_until : {FullUntil::BufferNeeded, FullUntil::EndOfBackward, FullUntil::ShardsChange}) {
      PipelineRank rank(stages, order, {.full_until = full_until});
      rank.whole_step();
      EXPECT_EQ(rank.unforeseen(), 0) << order.size() << " segments, full until " << static_cast<int>(full_until);
      EXPECT_EQ(rank.unforeseen(), 0);
    }
  }
}

TEST(GivenOrder, ForeseesASegmentWhoseKindHasRunBeforeInTheFirstStepToo) {
  PipelineRank rank(1, kOneForwardOneBackward);
  rank.run(rank.segments[0]);
  const int64_t before = rank.driver.counts().gathers - rank.driver.counts().foreseen_gathers;
  rank.run(rank.segments[1]);
  EXPECT_EQ(rank.driver.counts().gathers - rank.driver.counts().foreseen_gathers, before);
}

TEST(GivenOrder, GathersAheadOverTheEndOfABackward) {
  PipelineRank rank(1, kOneForwardOneBackward);
  rank.whole_step();
  for (int i = 0; i < 2; ++i) rank.run(rank.segments[i]);
  rank.script.take();
  rank.run(rank.segments[2]);
  const std::vector<std::string> lines = rank.script.take();
  EXPECT_THAT(lines, Not(Contains("release a"))) << "the next forward begins with it";
}

TEST(GivenOrder, KeepsUnitsFullUntilTheLastBackwardThatUsesThem) {
  PipelineRank given(1, kOneForwardOneBackward, {.full_until = FullUntil::EndOfBackward});
  given.whole_step();
  EXPECT_EQ(given.gathers(), kStageUnits) << "once a step";
  PipelineRank learnt(1, kOneForwardOneBackward, {.full_until = FullUntil::EndOfBackward});
  learnt.driver.give_order({});
  learnt.whole_step();
  EXPECT_GT(learnt.gathers(), kStageUnits);
}

TEST(GivenOrder, IsLostWhereAnotherSegmentComesAndFoundAgainInTheNextStep) {
  PipelineRank rank(1, kOneForwardOneBackward);
  rank.whole_step();
  std::swap(rank.segments[1], rank.segments[2]);  // not the given one: 0F0 0B0 0F1 ...
  EXPECT_GT(rank.unforeseen(), 0);
  std::swap(rank.segments[1], rank.segments[2]);
  EXPECT_EQ(rank.unforeseen(), 0);
}

TEST(GivenOrder, LearnsAnewWhereASegmentUsesOtherUnits) {
  GivenOrder order;
  order.give(segments_of({"0F0", "0B0"}));
  const auto play = [&](const std::vector<UnitId>& forward) {
    order.begin(0);
    for (UnitId unit : forward) order.use(unit, Mode::Forward);
    order.begin(0);
    for (UnitId unit : {1, 0}) order.use(unit, Mode::Backward);
    const bool on_plan = order.on_plan();
    order.end_step();
    return on_plan;
  };
  play({0, 1});
  EXPECT_TRUE(play({0, 1}));
  play({0, 2, 1});
  EXPECT_EQ(order.plan(), (std::vector<UnitId>{0, 2, 1, 1, 0}));
  EXPECT_TRUE(play({0, 2, 1}));
}

TEST(GivenOrder, ABackwardThatThrewIsNotFollowedUntilTheNextStep) {
  PipelineRank rank(1, kOneForwardOneBackward);
  rank.whole_step();
  rank.run(rank.segments[0]);
  rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  rank.run(rank.segments[1]);
  rank.run(rank.segments[2]);
  rank.step();
  EXPECT_EQ(rank.unforeseen(), 0);
}

}  // namespace
}  // namespace fsdp::schedule
