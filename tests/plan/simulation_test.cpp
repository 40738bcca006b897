// Steps whose times can be told by hand.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "fsdp/error.h"
#include "plan/chain.h"

namespace fsdp::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Kind = SimulatedAction::Kind;

int count(const SimulatedStep& step, Kind kind) {
  return static_cast<int>(std::ranges::count(step.actions, kind, &SimulatedAction::kind));
}

const SimulatedAction& first(const SimulatedStep& step, Kind kind, UnitId unit) {
  return *std::ranges::find_if(step.actions,
                               [&](const auto& action) { return action.kind == kind && action.unit == unit; });
}

// Two ranks with their own programs.
std::array<RankToSimulate, 2> both_ranks(const RankToSimulate& first_rank) {
  std::array ranks{first_rank, first_rank};
  ranks[1].facts.rank = 1;
  return ranks;
}

TEST(Simulation, HidesWhatTheScheduleOverlaps) {
  const SimulatedStep step = simulate_steady_step(chain_rank(3, 2));
  EXPECT_EQ(count(step, Kind::Gather), 4) << "2 in this step's passes, and 2 for the next step";
  EXPECT_EQ(count(step, Kind::Reduce), 3);
  EXPECT_NEAR(step.totals.compute, 36, kRounding);
  EXPECT_NEAR(step.totals.optimizer, 1.5, kRounding);
  EXPECT_NEAR(step.totals.gathers, 0, kRounding);
  EXPECT_NEAR(step.totals.end_of_backward, 2, kRounding) << "the last reduction";
  EXPECT_NEAR(step.totals.step, 39.5, kRounding);
}

TEST(Simulation, IsOneComputationOnOneRank) {
  const SimulatedStep step = simulate_steady_step(chain_rank(3, 1));
  EXPECT_NEAR(step.totals.step, 37.5, kRounding);
  EXPECT_EQ(step.totals.exposed(), 0);
}

// The first two units are gathered in the optimizer's step, the third beside the second's forward of 4 s, and so on.
TEST(Simulation, ExposesWhatIsLongerThanTheComputationBesideIt) {
  const SimulatedStep step =
      simulate_steady_step(chain_rank(3, 2, FullUntil::BufferNeeded, {.gather = 10, .update = 0}));
  const double to_first = 10, to_second = 10 - 4, to_third = 10 - 4, back_to_first = 10 - 8;
  EXPECT_NEAR(step.totals.gathers, to_first + to_second + to_third + back_to_first, kRounding);
}

TEST(Simulation, WaitsForALateGatherOnceIfUnitsStayFull) {
  const SimulatedStep step =
      simulate_steady_step(chain_rank(3, 2, FullUntil::EndOfBackward, {.gather = 10, .update = 0}));
  EXPECT_EQ(count(step, Kind::Gather), 3);
  EXPECT_NEAR(step.totals.gathers, 10 + 6 + 6, kRounding);
}

TEST(Simulation, AddsUpToTheStep) {
  RankToSimulate rank = chain_rank(5, 4, FullUntil::BufferNeeded, {.gather = 7, .reduce = 9});
  rank.durations.message = 0.25;
  rank.durations.slowdown = 0.5;
  rank.durations.launch = 0.125;
  for (const bool ahead : {false, true}) {
    rank.durations.runs_ahead = ahead;
    const auto [step, compute, optimizer, gathers, reductions, end, idle] = simulate_steady_step(rank).totals;
    EXPECT_NEAR(step, compute + optimizer + gathers + reductions + end + idle, kRounding);
    EXPECT_GT(compute, 60) << "slowed";
  }
}

TEST(Simulation, TakesTurnsOnOneStream) {
  RankToSimulate rank = chain_rank(4, 2, FullUntil::BufferNeeded, {.gather = 6, .reduce = 6});
  const double apart = simulate_steady_step(rank).totals.step;
  rank.durations.one_stream = true;
  const SimulatedStep step = simulate_steady_step(rank);
  EXPECT_GT(step.totals.step, apart);
  double end = 0;
  for (const SimulatedAction& action : step.actions) {
    if (action.kind != Kind::Gather && action.kind != Kind::Reduce) continue;
    EXPECT_GE(action.begin, end - kRounding);
    end = action.end;
  }
}

// As in shared memory: nothing is hidden.
TEST(Simulation, MovesBytesItselfWhereNothingElseDoes) {
  RankToSimulate rank = chain_rank(3, 2);
  rank.durations.beside = false;
  const StepTotals totals = simulate_steady_step(rank).totals;
  EXPECT_NEAR(totals.exposed(), 4 * 1 + 3 * 2, kRounding);
}

TEST(Simulation, AccumulatesWithoutReductionsInNoSync) {
  TrainingStep step = chain_step(3);
  step.micro_batches = 4;
  RankToSimulate rank = chain_rank(3, 2);
  rank.events = events_of(step);
  EXPECT_EQ(count(simulate_steady_step(rank), Kind::Reduce), 12);
  step.accumulates_locally = true;
  rank.events = events_of(step);
  EXPECT_EQ(count(simulate_steady_step(rank), Kind::Reduce), 3);
}

TEST(Simulation, ClipsBeforeTheStep) {
  TrainingStep step = chain_step(2);
  step.clips = true;
  step.clip_seconds = 3;
  RankToSimulate rank = chain_rank(2, 2);
  rank.events = events_of(step);
  const SimulatedStep found = simulate_steady_step(rank);
  EXPECT_NEAR(found.totals.optimizer, 3 + 1, kRounding);
  EXPECT_LT(first(found, Kind::Other, -1).end, first(found, Kind::Update, 0).end);
}

// A unit is stepped once its gradient buffer is needed for others.
TEST(Simulation, StepsUnitsInsideTheBackward) {
  TrainingStep step = chain_step(6);
  step.steps_in_backward = true;
  for (const int ranks : {1, 2}) {
    RankToSimulate rank = chain_rank(6, ranks);
    rank.events = events_of(step);
    const SimulatedStep found = simulate_steady_step(rank);
    EXPECT_EQ(count(found, Kind::Update), 6);
    EXPECT_LT(first(found, Kind::Update, 5).end, first(found, Kind::Backward, 0).begin);
    EXPECT_NEAR(found.totals.optimizer, 3, kRounding);
  }
}

// A replica's part follows the reduction, and only the end of the backward waits for it.
TEST(Simulation, BringsSumsToReplicas) {
  RankToSimulate rank = chain_rank(3, 2);
  rank.facts = schedule::facts_of(rank.facts.units, 0, 4, 2);
  rank.durations.replicate.assign(3, 1.5);
  EXPECT_NEAR(simulate_steady_step(rank).totals.end_of_backward, 2 + 1.5, kRounding);
}

TEST(Simulation, OfAllRanksIsThatOfTheOneThatStandsForThem) {
  for (const bool one_sided : {false, true}) {
    RankToSimulate rank = chain_rank(4, 2, FullUntil::BufferNeeded, {.gather = 5, .reduce = 7});
    rank.facts.one_sided = one_sided;
    const StepTotals alone = simulate({&rank, 1}).at(0).at(0).totals;
    for (const auto& steps : simulate(both_ranks(rank))) EXPECT_NEAR(steps.at(0).totals.step, alone.step, kRounding);
  }
}

TEST(Simulation, WaitsForTheSlowestRank) {
  auto ranks = both_ranks(chain_rank(3, 2));
  ranks[1].durations.straggling = 2;
  const auto steps = simulate(ranks);
  const StepTotals &fast = steps[0][0].totals, &slow = steps[1][0].totals;
  EXPECT_NEAR(slow.compute, 72, kRounding);
  EXPECT_NEAR(fast.compute, 36, kRounding);
  EXPECT_NEAR(slow.exposed() + slow.idle, 4 + 2, kRounding) << "gathers on demand, and the last reduction";
  EXPECT_GT(fast.exposed() + fast.idle, 36) << "the time that the other computes";
}

TEST(Simulation, HasEveryRankInTheGathersOfRanksThatDiffer) {
  auto ranks = both_ranks(chain_rank(3, 2));
  TrainingStep other = chain_step(3);
  std::erase_if(other.forward, [](const auto& one) { return one.units[0] == 1; });
  std::erase_if(other.backward, [](const auto& one) { return one.units[0] == 1; });
  ranks[1].events = events_of(other);
  const auto steps = simulate(ranks);
  EXPECT_EQ(count(steps[1][0], Kind::Gather), count(steps[0][0], Kind::Gather));
  EXPECT_EQ(count(steps[1][0], Kind::Reduce), 3);
}

TEST(Simulation, DoesNotDependOnTheNumberOfRanksThatAreAlike) {
  const double few = simulate_steady_step(chain_rank(100, 8)).totals.step;
  EXPECT_EQ(simulate_steady_step(chain_rank(100, 10'000)).totals.step, few);
}

TEST(Simulation, RefusesNonsense) {
  const auto refusal = [](const std::function<void(RankToSimulate&)>& change, const char* message) {
    RankToSimulate rank = chain_rank(3, 2);
    change(rank);
    EXPECT_THAT([&] { simulate_steady_step(rank); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refusal([&](auto& rank) { rank.durations.gather[1] = nan; }, "found nan seconds for gathers");
  refusal([](auto& rank) { rank.durations.message = -1; }, "found -1 seconds for a message");
  refusal([](auto& rank) { rank.durations.update.pop_back(); }, "found times of 2 units for updates, expected 3");
  refusal([](auto& rank) { rank.limits.units = 2; }, "found limits of 2 units, expected 3");
  refusal([](auto& rank) { rank.facts.shards = 3; }, "found 2 ranks that share the state in groups of 3");
  refusal([](auto& rank) { rank.events[0].units = {3}; }, "found unit 3, expected one below 3");
  refusal([](auto& rank) { rank.events[0].launches = 0; }, "found 0 launches");
  refusal([](auto& rank) { rank.events.pop_back(); }, "expected 1");
  refusal([](auto& rank) { rank.events = {{.kind = StepEvent::Kind::Step}}; }, "no gradient");
}

TEST(Simulation, NamesRanksThatWaitForEachOther) {
  auto ranks = both_ranks(chain_rank(3, 2));
  ranks[1].events.clear();
  EXPECT_THAT([&] { simulate(ranks); }, ThrowsMessage<Error>(HasSubstr("rank 1 has ended")));
}

}  // namespace
}  // namespace fsdp::plan
