// The order of a step, decided without tensors and ranks. Units a, b and c share two buffers, so that c is gathered in
// place of a.
#include "schedule/step_driver.h"

#include <gmock/gmock.h>

#include "fsdp/error.h"
#include "schedule/script.h"
#include "support/message_of.h"

namespace fsdp::schedule {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kUnitCount = 3;
constexpr UnitId kFirst = 0;
const char kRound[] = "all ranks: has ended its backward or gathers outside of a plan";

Facts one_sided() { return facts_in_shared_memory(kUnitCount); }

// Ranks can join each other's gathers, as over connections.
Facts joining() { return facts_of_units(kUnitCount); }

TEST(StepDriver, GathersOnDemandInTheFirstForward) {
  ScriptedRank rank(one_sided());
  rank.forward();
  EXPECT_THAT(rank.script.take(), ElementsAre("forward begins", "gather a in 0", "await a", "gather b in 1", "await b",
                                              "release a", "gather c in 0", "await c"));
}

TEST(StepDriver, GathersOnDemandInRoundsWherePeersTakePart) {
  ScriptedRank rank(joining());
  rank.forward();
  EXPECT_THAT(rank.script.take(), ElementsAre("forward begins", kRound, "gather in any order a in 0", "await a", kRound,
                                              "gather in any order b in 1", "await b", "release a", kRound,
                                              "gather in any order c in 0", "await c"));
}

TEST(StepDriver, ReducesAUnitWithItsLastGradientAndTheRestAtTheEnd) {
  ScriptedRank rank(one_sided());
  rank.forward();
  rank.script.take();
  rank.backward();
  EXPECT_THAT(rank.script.take(),
              ElementsAre("open c in 0", "reduce c", "open b in 1", "reduce b", "release c", "gather a in 0", "await a",
                          "reduced c", "open a in 0", "reduce a", "all ranks: has ended its backward", "reduced a",
                          "reduced b", "release a", "release b", "end reductions", "backward ended"));
}

TEST(StepDriver, GathersTheFirstUnitsOfTheNextForwardWhileAStepWritesTheOthers) {
  ScriptedRank rank(one_sided());
  rank.micro_batch();
  rank.script.take();
  rank.driver.step(&rank);
  EXPECT_THAT(rank.script.take(),
              ElementsAre("end sum", "begin updates", "await readers", "write a", "update a", "gather a in 0",
                          "write b", "update b", "gather b in 1", "write c", "update c"));
  rank.driver.zero_grad();
  rank.script.take();
  rank.forward();
  EXPECT_THAT(rank.script.take(), ElementsAre("forward begins", "mark changed", "await a", "release a", "gather c in 0",
                                              "await b", "await c"));
}

TEST(StepDriver, PlannedGathersNeedNoRounds) {
  ScriptedRank rank(joining());
  rank.micro_batch();
  rank.step();
  rank.script.take();
  rank.micro_batch();
  EXPECT_THAT(only(rank.script.take(), {kRound}), ElementsAre(kRound)) << "at the end of the backward";
  EXPECT_EQ(rank.driver.counts().gathers, 2 * 4);
  EXPECT_EQ(rank.driver.counts().foreseen_gathers, 4);
}

TEST(StepDriver, AReductionThatStallsKeepsItsMemoryUnderAnotherNumber) {
  ScriptedRank rank(joining());
  rank.script.begun = [](UnitId unit) { return unit == 2 ? Begun::PeerStalls : Begun::Yes; };
  rank.forward();
  rank.script.take();
  rank.backward();
  EXPECT_THAT(only(rank.script.take(), {"open", "move", "reduced"}),
              ElementsAre("open c in 0", "open b in 1", "move in 0 to 2", "open a in 0", "reduced a", "reduced b",
                          "reduced c"));
}

TEST(StepDriver, KeepsAGradientAsideThatComesDuringAReductionAndReducesItAtTheEnd) {
  ScriptedRank rank(joining());
  rank.forward();
  rank.backward(2);
  rank.script.begun = [](UnitId) { return Begun::PeerStalls; };
  rank.script.take();
  EXPECT_FALSE(rank.gradient(2));
  EXPECT_THAT(rank.script.take(), IsEmpty());
  rank.script.begun = [](UnitId) { return Begun::Yes; };
  rank.backward(1);
  rank.backward(0);
  rank.driver.backward_ends();
  EXPECT_THAT(only(rank.script.take(), {"reduce c", "reduced c"}), ElementsAre("reduced c", "reduce c", "reduced c"));
  EXPECT_EQ(rank.driver.counts().late_gradients, 1);
}

// The largest of every count is the peer's.
std::function<std::vector<Words>(const Words&)> peer_with(UnitCounts counts) {
  return [counts](const Words& own) {
    RankReport report = unpack_report(own);
    take_largest(report.counts, counts);
    Words theirs(own.size());
    pack(report, theirs);
    return std::vector{own, theirs};
  };
}

TEST(StepDriver, TakesPartInAReductionThatOnlyAPeerHasAGradientFor) {
  ScriptedRank rank(one_sided());
  rank.forward();
  rank.backward(2);
  rank.backward(1);
  rank.script.peers = peer_with({{.reductions = 1, .lag = 0, .gradients = 2}, {}, {}});
  rank.script.take();
  rank.driver.backward_ends();
  EXPECT_THAT(only(rank.script.take(), {"open", "reduce a", "reduced a"}),
              ElementsAre("open a in 0", "reduce a", "reduced a"));
}

TEST(StepDriver, NoSyncLeavesSumsToTheNextBackwardOrTheStep) {
  ScriptedRank rank(one_sided());
  rank.driver.begin_local();
  rank.micro_batch();
  EXPECT_THAT(only(rank.script.take(), {"reduce", "all ranks"}), IsEmpty());
  EXPECT_TRUE(rank.local_sums);
  EXPECT_THAT(testing::message_of<Error>([&] { rank.driver.step(&rank); }), HasSubstr("no_sync"));
  rank.driver.end_local();
  rank.driver.step(&rank);
  EXPECT_FALSE(rank.local_sums);
  EXPECT_THAT(
      only(rank.script.take(), {"reduce ", "end reductions", "end sum", "update"}),
      ElementsAre("reduce a", "reduce b", "reduce c", "end reductions", "end sum", "update a", "update b", "update c"));
}

TEST(StepDriver, ABackwardThatThrewLeavesNothingBehind) {
  ScriptedRank rank(one_sided());
  rank.forward();
  rank.backward(2);
  rank.gradient(1);
  rank.script.take();
  rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  EXPECT_THAT(rank.script.take(), ElementsAre("reduced c", "release c", "release b", "give up reductions"));
  rank.micro_batch();
  EXPECT_THAT(only(rank.script.take(), {"reduce "}), ElementsAre("reduce c", "reduce b", "reduce a"));
}

TEST(StepDriver, WritesOfPiecesArePublishedBeforeTheNextUse) {
  ScriptedRank rank(one_sided());
  rank.driver.pieces_change("aten::add_");
  rank.driver.pieces_change("aten::mul_");
  EXPECT_THAT(rank.script.take(), ElementsAre("await readers", "write all"));
  rank.driver.publish_pieces();
  rank.driver.publish_pieces();
  EXPECT_THAT(rank.script.take(), ElementsAre("publish all"));
  rank.forward();
  EXPECT_THAT(rank.script.take(), Contains("mark changed"));
  EXPECT_FALSE(rank.changed);
}

// The driver's calls by the table's names; the others check by themselves.
const std::vector<std::pair<Call, std::function<void(ScriptedRank&)>>>& calls() {
  using R = ScriptedRank;
  static const std::vector<std::pair<Call, std::function<void(R&)>>> calls{
      {Call::UseParameter,
       [](R& rank) {
         rank.driver.operator_begins({&kFirst, 1}, Mode::Forward, false, "mm");
       }},
      {Call::AddGradient, [](R& rank) { rank.driver.check_gradient(0); }},
      {Call::CloseSum, [](R& rank) { rank.driver.close_sum("clip_grad_norm_"); }},
      {Call::Step, [](R& rank) { rank.driver.step(&rank); }},
      {Call::ZeroGrad, [](R& rank) { rank.driver.zero_grad(); }},
      {Call::ChangeSettings, [](R& rank) { rank.driver.any_rank_has_batch(true); }},
      {Call::BackwardWithoutBatch, [](R& rank) { rank.driver.backward_without_batch(); }},
      {Call::OpenStepInBackward, [](R& rank) { rank.driver.open_early_step(&rank); }},
      {Call::WriteState, [](R& rank) { rank.driver.pieces_change("aten::add_"); }},
  };
  return calls;
}

// Of each situation, a rank that is in it and has a gradient.
const std::vector<std::pair<Situation, std::function<void(ScriptedRank&)>>>& situations() {
  using R = ScriptedRank;
  const auto lose = [](R& rank) {
    rank.driver.begin_local();
    rank.micro_batch();
    rank.driver.end_local();
    rank.use(0, Mode::Backward);
    rank.driver.note_backward(/*inside=*/false, /*abandoned=*/true);
  };
  const auto break_off = [](R& rank) {
    rank.micro_batch(), rank.driver.step(&rank), rank.driver.zero_grad();
    rank.driver.open_early_step(&rank), rank.micro_batch();
    rank.driver.forget(&rank);
  };
  static const std::vector<std::pair<Situation, std::function<void(R&)>>> situations{
      {Situation::Broken, break_off},
      {Situation::Stepping, [](R& rank) { rank.driver.open_early_step(&rank), rank.micro_batch(); }},
      {Situation::InsideBackward, [](R& rank) { rank.use(0, Mode::Backward); }},
      {Situation::FullScope, [](R& rank) { rank.driver.open_full_scope(); }},
      {Situation::LastBackward, [](R& rank) { rank.driver.open_early_step(&rank); }},
      {Situation::NoSync, [](R& rank) { rank.driver.begin_local(); }},
      {Situation::Incomplete, lose},
      {Situation::Closed, [](R& rank) { rank.micro_batch(), rank.driver.close_sum("clip_grad_norm_"); }},
      {Situation::NoValues, [](R& rank) { rank.driver.miss_values(); }},
      {Situation::ValuesLost, [](R& rank) { rank.driver.lose_values(); }},
  };
  return situations;
}

// A backward without a batch adds to the sum, too, and asks for that first.
Misuse first_misuse(Call call, Situation situation) {
  const Misuse adding = misuse_of(Call::AddGradient, situation);
  return call == Call::BackwardWithoutBatch && adding != Misuse::None ? adding : misuse_of(call, situation);
}

TEST(StepDriver, RefusesEveryCallThatTheTableRefusesAndDoesNothing) {
  ASSERT_EQ(situations().size(), kSituations);
  int refused = 0;
  for (const auto& [situation, enter] : situations()) {
    for (const auto& [call, make] : calls()) {
      SCOPED_TRACE(std::to_string(static_cast<int>(situation)) + " " + std::to_string(static_cast<int>(call)));
      ScriptedRank rank(one_sided());
      enter(rank);
      rank.script.take();
      const Misuse misuse = first_misuse(call, situation);
      if (misuse == Misuse::None) {
        EXPECT_EQ(rank.driver.machine().check(call), Misuse::None);
        continue;
      }
      ++refused;
      const std::string words = message_of(misuse, "").substr(message_of(misuse, "").rfind(". "));
      EXPECT_THAT(testing::message_of<Error>([&] { make(rank); }), HasSubstr(words));
      EXPECT_THAT(rank.script.take(), IsEmpty());
      EXPECT_FALSE(rank.driver.failed());
    }
  }
  EXPECT_GT(refused, 40);
}

TEST(StepDriver, AnErrorIsThrownAgainByEveryLaterCall) {
  const Lines verbs = [] {
    ScriptedRank rank(joining());
    rank.micro_batch();
    rank.step();
    return only(rank.script.take(), {"gather", "await a", "await b", "await c", "release", "open", "reduce", "end red",
                                     "write", "update", "all ranks", "forward begins"});
  }();
  ASSERT_GT(verbs.size(), 20);
  for (size_t failing = 0; failing < verbs.size(); ++failing) {
    SCOPED_TRACE(verbs[failing]);
    ScriptedRank rank(joining());
    size_t seen = 0;
    rank.script.before = [&](const std::string& line) {
      const bool counted = seen < verbs.size() && line == verbs[seen];
      if (counted && seen++ == failing) throw Error("the network is down");
    };
    EXPECT_EQ(testing::message_of<Error>([&] {
                rank.micro_batch();
                rank.step();
              }),
              "the network is down");
    EXPECT_TRUE(rank.driver.failed());
    rank.script.take();
    EXPECT_EQ(testing::message_of<Error>([&] { rank.use(0, Mode::Forward); }), "the network is down");
    EXPECT_EQ(testing::message_of<Error>([&] { rank.driver.begin_write(); }), "the network is down");
    EXPECT_THAT(only(rank.script.take(), {"gather", "write", "all ranks"}), IsEmpty());
  }
}

TEST(StepDriver, AUnitIsFreeAgainWhereItsGatherFailed) {
  ScriptedRank rank(one_sided());
  rank.script.before = [](const std::string& line) {
    if (line == "gather a in 0") throw Error("the network is down");
  };
  EXPECT_EQ(testing::message_of<Error>([&] { rank.use(0, Mode::Forward); }), "the network is down");
  EXPECT_FALSE(rank.driver.schedule().pinned(0));
}

}  // namespace
}  // namespace fsdp::schedule
