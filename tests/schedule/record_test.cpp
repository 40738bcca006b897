// The schedule's record of a step.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string word_for(const Event& event) {
  if (event.kind == Event::Kind::EndOfBackward) return "end";
  if (event.kind == Event::Kind::Action) return to_string(event.action);
  return fmt::format("{} {}", event.mode == Mode::Backward ? "backward" : "forward", event.action.unit);
}

std::vector<std::string> words_for(const MicroBatches& micro_batches) {
  std::vector<std::string> words;
  for (const Event& event : micro_batches.events) words.push_back(word_for(event));
  return words;
}

// A chain of two units.
void train(Player& player) {
  player.forward({0, 1});
  for (UnitId unit : {1, 0}) {
    player.backward(unit);
    player.gradients(unit, 1, 1);
  }
  player.end_backward();
}

TEST(Record, HasTheUsesOfAStepAndWhatEachCaused) {
  Player player({.units = 2});
  train(player);
  player.add(player.schedule.shards_change());
  const Step& step = player.schedule.record().step();
  ASSERT_EQ(step.micro_batches.size(), 1);
  EXPECT_EQ(step.micro_batches[0].count, 1);
  EXPECT_THAT(words_for(step.micro_batches[0]),
              ElementsAre("forward 0", "Gather 0 in 0", "WaitGather 0", "forward 1", "Gather 1 in 1", "WaitGather 1",
                          "backward 1", "OpenGradient 1 in 1", "Reduce 1 in 1", "backward 0", "OpenGradient 0 in 0",
                          "Reduce 0 in 0", "end", "WaitReduce 0 in 0", "WaitReduce 1 in 1", "Release 0 in 0",
                          "Release 1 in 1"));
  EXPECT_THAT(step.behind, IsEmpty());
}

TEST(Record, TellsEqualMicroBatchesOnce) {
  Player player({.units = 2, .full_until = FullUntil::ShardsChange});
  for (int step = 0; step < 2; ++step) {
    for (int micro_batch = 0; micro_batch < 4; ++micro_batch) train(player);
    player.add(player.schedule.shards_change());
  }
  EXPECT_EQ(player.schedule.record().steps(), 2);
  const Step& step = player.schedule.record().step();
  ASSERT_EQ(step.micro_batches.size(), 2);  // the first one gathers
  EXPECT_EQ(step.micro_batches[0].count, 1);
  EXPECT_THAT(step.micro_batches[0].full_before, ElementsAre(0, 0));
  EXPECT_EQ(step.micro_batches[1].count, 3);
  EXPECT_THAT(step.micro_batches[1].full_before, ElementsAre(1, 1));
  EXPECT_THAT(step.behind, ElementsAre(Action{Action::Kind::Release, 0, 0}, Action{Action::Kind::Release, 1, 1}));
}

TEST(Record, HasWhatIsGatheredWhileTheShardsAreWritten) {
  Player player({.units = 2});
  for (int step = 0; step < 2; ++step) {
    train(player);
    player.step(2);
  }
  const Step& step = player.schedule.record().step();
  EXPECT_THAT(step.behind,
              ElementsAre(Action{Action::Kind::Gather, 0, 0, true}, Action{Action::Kind::Gather, 1, 1, true}));
  ASSERT_EQ(step.micro_batches.size(), 1);
  EXPECT_THAT(step.micro_batches[0].full_before, ElementsAre(1, 1));
}

TEST(Record, LeavesOutEvaluationsAndBackwardsThatThrew) {
  Player player({.units = 2});
  train(player);
  player.add(player.schedule.shards_change());
  const auto before = words_for(player.schedule.record().step().micro_batches[0]);
  player.evaluate({0, 1, 0, 1});
  player.forward({0, 1});
  player.abandon_backward();
  player.add(player.schedule.shards_change());
  EXPECT_EQ(player.schedule.record().steps(), 1);
  EXPECT_EQ(words_for(player.schedule.record().step().micro_batches[0]), before);
}

TEST(Record, OfForwardPassesWithoutEndEnds) {
  Record record(2);
  record.begin_micro_batch();
  constexpr size_t kMany = 100'000;
  for (size_t i = 0; i < kMany; ++i) {
    record.use(0, Mode::Forward);
    record.add({{Action::Kind::Gather, 0, 0}, {Action::Kind::Release, 0, 0}});
  }
  record.end_micro_batch();
  EXPECT_LT(record.step().micro_batches[0].events.size(), kMany);
}

TEST(Record, HasWhatThereIsOfTheFirstStep) {
  Player player({.units = 2});
  EXPECT_THAT(player.schedule.record().step().micro_batches, IsEmpty());
  train(player);
  EXPECT_EQ(player.schedule.record().steps(), 0);
  EXPECT_EQ(player.schedule.record().step().micro_batches.size(), 1);
}

}  // namespace
}  // namespace fsdp::schedule
