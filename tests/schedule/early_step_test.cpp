// A step that begins inside a backward (step_in_backward), decided without tensors and ranks.
#include <gmock/gmock.h>

#include <algorithm>

#include "fsdp/error.h"
#include "schedule/script.h"
#include "support/message_of.h"

namespace fsdp::schedule {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Each unit has a buffer of its own, so that a backward is done with units before its end.
struct EarlyRank : ScriptedRank {
  explicit EarlyRank(const Facts& facts = facts_in_shared_memory(4))
      : ScriptedRank(facts, {.full_until = FullUntil::EndOfBackward}) {
    micro_batch();
    step();
    forward();
    script.take();
    driver.open_early_step(this);
  }
  // Its backward is done with the last unit, which has been stepped.
  void leave_first_unit_alone() {
    for (UnitId unit : {3, 2, 1}) backward(unit);
  }
};

Lines updates(const Lines& lines) { return only(lines, {"update"}); }

// The peer has these counts of unit 3.
std::vector<Words> with_more_of_unit_3(const Words& own, UnitCount more) {
  RankReport report = unpack_report(own);
  report.counts[3] = more;
  Words theirs(own.size());
  pack(report, theirs);
  return {own, theirs};
}

TEST(EarlyStep, UpdatesUnitsThatTheBackwardIsDoneWithAndStepDoesTheRest) {
  EarlyRank rank;
  rank.backward();
  const Lines early = updates(rank.script.take());
  EXPECT_THAT(early, Contains("update early d"));
  rank.driver.step(&rank);
  const Lines late = updates(rank.script.take());
  EXPECT_EQ(early.size() + late.size(), 4);
  EXPECT_THAT(late, Not(Contains("update d")));
}

TEST(EarlyStep, AsksPeersAndDoesNotWaitForThem) {
  EarlyRank rank;
  rank.script.peers_have_left = [](UnitId) { return false; };
  rank.backward();
  EXPECT_THAT(updates(rank.script.take()), IsEmpty());
  rank.driver.step(&rank);
  EXPECT_THAT(updates(rank.script.take()), ElementsAre("update a", "update b", "update c", "update d"));
}

TEST(EarlyStep, RefusesAGradientOfAUnitThatWasStepped) {
  EarlyRank rank;
  rank.leave_first_unit_alone();
  ASSERT_THAT(updates(rank.script.take()), Contains("update early d"));
  EXPECT_THAT(testing::message_of<Error>([&] { rank.gradient(3); }), HasSubstr("[fsdp unit=d] "));
  EXPECT_THAT(testing::message_of<Error>([&] { rank.use(3, Mode::Backward); }), HasSubstr("[fsdp unit=d] "));
  EXPECT_FALSE(rank.driver.failed()) << "a misuse: nothing was exchanged";
}

TEST(EarlyStep, BreaksOffOnEveryRankWhereAPeerHasAnotherGradientOfAUnitThatWasStepped) {
  EarlyRank rank;
  for (UnitId unit = 3; unit >= 0; --unit) rank.backward(unit);
  ASSERT_THAT(updates(rank.script.take()), Contains("update early d"));
  rank.script.peers = [](const Words& own) {
    return with_more_of_unit_3(own, {.reductions = 2, .lag = 0, .gradients = 3});
  };
  EXPECT_THAT(testing::message_of<Error>([&] { rank.driver.backward_ends(); }),
              HasSubstr("came after the unit was stepped"));
  EXPECT_EQ(rank.driver.machine().early_step(), EarlyStepPhase::Broken);
  EXPECT_THAT(testing::message_of<Error>([&] { rank.use(0, Mode::Forward); }), HasSubstr("step_in_backward"));
}

TEST(EarlyStep, LeavesAllToStepWhereAPeerHasAnotherGradientOfAUnitThatWasNotYetStepped) {
  EarlyRank rank;
  rank.script.peers_have_left = [](UnitId) { return false; };
  for (UnitId unit = 3; unit >= 0; --unit) rank.backward(unit);
  rank.script.peers_have_left = [](UnitId) { return true; };
  rank.script.peers = [](const Words& own) {
    return with_more_of_unit_3(own, {.reductions = 2, .lag = 0, .gradients = 3});
  };
  rank.driver.backward_ends();
  EXPECT_THAT(updates(rank.script.take()), IsEmpty());
  rank.driver.step(&rank);
  EXPECT_THAT(updates(rank.script.take()), ElementsAre("update a", "update b", "update c", "update d"));
}

TEST(EarlyStep, BreaksOffWhereABackwardThatSteppedAUnitThrows) {
  EarlyRank rank;
  rank.leave_first_unit_alone();
  rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  EXPECT_EQ(rank.driver.machine().early_step(), EarlyStepPhase::Broken);
}

TEST(EarlyStep, IsNoneWhereABackwardThatSteppedNothingThrows) {
  EarlyRank rank;
  rank.use(3, Mode::Backward);
  rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  rank.driver.close_early_step();
  EXPECT_EQ(rank.driver.machine().early_step(), EarlyStepPhase::None);
}

TEST(EarlyStep, IsGoneOnWithByTheSameRuleAlone) {
  EarlyRank rank;
  rank.backward();
  const int other = 0;
  EXPECT_THAT(testing::message_of<Error>([&] { rank.driver.step(&other); }), HasSubstr("optimizer"));
  rank.driver.forget(&rank);
  EXPECT_EQ(rank.driver.machine().early_step(), EarlyStepPhase::Broken);
}

// The units that were stepped have been published in this step; every rank publishes each unit once.
TEST(EarlyStep, ALoadPublishesTheUnitsThatABrokenStepLeft) {
  EarlyRank rank;
  rank.leave_first_unit_alone();
  const size_t stepped = updates(rank.script.take()).size();
  ASSERT_GT(stepped, 0);
  rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  rank.script.take();
  rank.driver.end_broken_step();
  Lines published = rank.script.take();
  std::erase_if(published, [](const std::string& line) { return !line.starts_with("publish"); });
  EXPECT_EQ(published.size(), 4 - stepped);
  EXPECT_EQ(rank.driver.machine().early_step(), EarlyStepPhase::None);
}

// A gather needs all ranks where it is not one-sided.
TEST(EarlyStep, ALoadTakesPartInGathersThatAPeerHasBegunForTheNextForward) {
  EarlyRank rank(facts_of_units(4));
  rank.script.peers_have_left = [](UnitId) { return false; };
  rank.leave_first_unit_alone();
  rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  ASSERT_EQ(rank.driver.machine().early_step(), EarlyStepPhase::Broken);
  rank.script.take();
  rank.script.peers = [](const Words& own) { return std::vector{own, own.size() == 4 ? Words{0, 0, 0, 1} : own}; };
  rank.driver.end_broken_step();
  EXPECT_THAT(only(rank.script.take(), {"gather"}), ElementsAre(HasSubstr("gather for peers d")));
}

TEST(EarlyStep, ALoadAfterAWholeStepFindsNothingToEnd) {
  ScriptedRank rank(facts_in_shared_memory(2));
  rank.driver.end_broken_step();
  EXPECT_THAT(rank.script.take(), ElementsAre("all ranks: loads a checkpoint"));
}

}  // namespace
}  // namespace fsdp::schedule
