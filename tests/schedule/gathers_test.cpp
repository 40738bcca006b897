// When units are gathered, and which are full.
#include <gmock/gmock.h>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using Kind = Action::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A model of blocks 1..L and a unit 0 at both ends: embedding first, tied head last.
void tied_step(Player& player, int blocks) {
  player.forward({0});
  for (UnitId block = 1; block <= blocks; ++block) player.forward({block, block});
  player.forward({0});
  player.backward(0);
  player.gradients(0, 1, 2);  // the final norm's; the embedding's comes at the very end
  for (UnitId block = blocks; block >= 1; --block) {
    player.backward(block);
    player.gradients(block, 3, 3);
  }
  player.gradients(0, 1, 2);
  player.end_backward();
}

TEST(Schedule, GathersEachBlockOnceAPassButThoseThatAreStillThere) {
  for (int blocks : {2, 3, 6, 48}) {
    Player player({.units = blocks});
    for (int step = 0; step < 3; ++step) {
      block_step(player, blocks);
      // Two buffers hold the last two blocks when the backward begins.
      EXPECT_EQ(player.count(Kind::Gather), blocks + blocks - 2) << "step " << step << " of " << blocks << " blocks";
      EXPECT_EQ(player.count(Kind::Reduce), blocks);
      player.actions.clear();
    }
    EXPECT_EQ(player.schedule.buffers(), 2);
    EXPECT_EQ(player.schedule.gradient_buffers(), 2);
  }
}

TEST(Schedule, GathersATiedEmbeddingForEachEndOfTheForwardAndKeepsTheLastBlock) {
  for (int blocks : {2, 6, 12}) {
    Player player({.units = blocks + 1});
    for (int step = 0; step < 3; ++step) {
      tied_step(player, blocks);
      EXPECT_EQ(player.count(Kind::Gather) - player.count(Kind::Gather, 0), blocks + blocks - 1) << "step " << step;
      EXPECT_EQ(player.count(Kind::Gather, 0), 2) << "step " << step;
      for (UnitId unit = 0; unit <= blocks; ++unit) EXPECT_EQ(player.count(Kind::Reduce, unit), 1);
      player.actions.clear();
    }
    EXPECT_EQ(player.schedule.buffers(), 2);
    EXPECT_EQ(player.schedule.gradient_buffers(), 3);  // the embedding's stays open all along
  }
}

TEST(Schedule, MoreBuffersSaveGathersUntilEveryUnitIsGatheredOnce) {
  int blocks = 6, before = 1000;
  for (int buffers : {2, 3, 4, 7}) {
    Player player({.units = blocks + 1, .buffers = buffers});
    tied_step(player, blocks);
    player.actions.clear();
    tied_step(player, blocks);
    int gathers = player.count(Kind::Gather);
    EXPECT_LT(gathers, before);
    before = gathers;
  }
  EXPECT_EQ(before, blocks + 1);
}

TEST(Schedule, GathersAheadOnceItHasAPlan) {
  Player player({.units = 3});
  block_step(player, 3);
  player.take();
  player.forward({0});
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1", "WaitGather 0"));
  player.forward({1});
  EXPECT_THAT(player.take(), ElementsAre("Gather 2", "WaitGather 1"));
  player.forward({2});
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 2"));
  player.backward(2);
  player.gradients(2, 2, 2);
  EXPECT_THAT(player.take(), ElementsAre("Reduce 2"));
  player.backward(1);
  EXPECT_THAT(player.take(), ElementsAre("Gather 0"));
  player.gradients(1, 2, 2);
  player.backward(0);
  EXPECT_THAT(player.take(), ElementsAre("Reduce 1", "WaitGather 0"));
  player.gradients(0, 2, 2);
  player.end_backward();
  EXPECT_THAT(player.take(), ElementsAre("WaitBuffer 2", "Reduce 0", "WaitReduce 0", "WaitReduce 1"));
}

TEST(Schedule, GathersWhatComesFirstWhileTheShardsAreWritten) {
  Player player({.units = 3});
  block_step(player, 3);
  player.take();
  player.step(3);
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1"));
  player.forward({0});
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 0"));
  player.forward({1});
  EXPECT_THAT(player.take(), ElementsAre("Gather 2", "WaitGather 1"));
}

TEST(Schedule, GathersNoMoreThenThanTheFirstUseWould) {
  struct Case {
    Limits limits;
    std::vector<std::string> gathers;
  };
  for (const auto& [limits, gathers] : {Case{{.units = 3, .buffers = 3, .prefetch = 0}, {"Gather 0"}},
                                        Case{{.units = 3, .buffers = 3, .prefetch = 1}, {"Gather 0", "Gather 1"}},
                                        Case{{.units = 3, .buffers = 1, .prefetch = 2}, {"Gather 0"}}}) {
    Player player(limits);
    block_step(player, 3);
    player.take();
    player.step(3);
    EXPECT_EQ(player.take(), gathers) << limits.buffers << " buffers, prefetch " << limits.prefetch;
  }
}

TEST(Schedule, GathersNothingWhileTheShardsAreWrittenWhereSomeRankMayHaveNoPlan) {
  Player player({.units = 3});
  player.step(3);
  player.schedule.set_followed(true);
  block_step(player, 3);
  player.schedule.set_followed(false);
  player.take();
  player.step(3);
  EXPECT_THAT(player.take(), IsEmpty());
  block_step(player, 3);
  player.take();
  player.step(3);
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1"));
}

TEST(Schedule, GathersAllUnitsWhileTheShardsAreWrittenWhereEachHasABuffer) {
  for (FullUntil full_until : {FullUntil::EndOfBackward, FullUntil::ShardsChange}) {
    Player player({.units = 3, .full_until = full_until});
    player.step(3);
    EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1", "Gather 2"));
    player.forward({1});
    EXPECT_THAT(player.take(), ElementsAre("WaitGather 1"));
  }
}

TEST(Schedule, GivesUpWhatWasGatheredAheadWhenAnotherUnitComesFirst) {
  Player player({.units = 3});
  block_step(player, 3);
  player.step(3);
  player.take();
  player.evaluate({2});
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 1", "Gather 2", "WaitGather 2"));
  player.step(3);
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 0", "Gather 0", "Gather 1"));
}

TEST(Schedule, NothingIsFullAfterABackward) {
  Player player({.units = 7});
  tied_step(player, 6);
  for (UnitId unit = 0; unit < 7; ++unit) EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
}

TEST(Schedule, OnlyGathersOnThePlanAreForeseen) {
  Player player({.units = 4});
  block_step(player, 3);
  for (const Action& action : player.actions) EXPECT_FALSE(action.foreseen) << to_string(action);
  player.actions.clear();
  block_step(player, 3);
  for (const Action& action : player.actions) {
    EXPECT_EQ(action.foreseen, action.kind == Kind::Gather) << to_string(action);
  }
  player.actions.clear();
  player.forward({3});
  EXPECT_FALSE(player.actions.front().foreseen);
}

TEST(Schedule, AnOperatorOverSeveralUnitsHasThemAllEvenBeyondTheBuffers) {
  Player player({.units = 6});
  for (int step = 0; step < 2; ++step) {
    player.touch({0, 1, 2, 3, 4, 5}, Mode::Forward);
    player.backward(5);
    player.end_backward();
  }
  EXPECT_EQ(player.schedule.buffers(), 6);
}

TEST(Schedule, PinnedUnitsAreNeverReleased) {
  Schedule schedule({.units = 4});
  schedule.operator_begins(std::vector<UnitId>{0}, Mode::Forward);  // one thread's operator, still running
  for (UnitId unit : {1, 2, 3}) {
    std::vector<UnitId> units{unit};
    for (const Action& action : schedule.operator_begins(units, Mode::Forward)) {
      EXPECT_FALSE(action.kind == Kind::Release && action.unit == 0);
    }
    schedule.operator_ends(units);
  }
  EXPECT_EQ(schedule.state(0), Residency::State::Full);
  EXPECT_EQ(schedule.buffers(), 2);
}

TEST(Schedule, ChangedShardsLeaveNothingFull) {
  Player player({.units = 2});
  player.evaluate({0, 1});
  Actions actions = player.schedule.shards_change();
  EXPECT_EQ(actions.size(), 2u);
  for (UnitId unit : {0, 1}) EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
}

}  // namespace
}  // namespace fsdp::schedule
