// The simulation (plan/simulation.h) against real runs: the same program leads to the same actions, event for event, as
// in the trace of the model and in its schedule.
#include <gmock/gmock.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/communication_rows.h"
#include "engine/recorded_program.h"
#include "plan/sharded_setup.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using testing_models::first_difference;
using testing_models::ProgramRecorder;
using testing_models::RecordedRun;
using testing_models::table_rows;
using testing_models::TableRow;

struct SimulatedCase {
  std::string name;
  int ranks = 2;
  Options options = {};
  std::string backend = "shm";

  friend void PrintTo(const SimulatedCase& one, std::ostream* out) { *out << one.name; }
};

std::vector<RecordedRun> record(const TableRow& row, World& world, const Options& options) {
  std::map<const engine::Model*, std::unique_ptr<ProgramRecorder>> recorders;
  std::vector<RecordedRun> runs;
  row.third_step(
      world, options,
      {.begins =
           [&](ShardedModel& model) { recorders[&model.model()] = std::make_unique<ProgramRecorder>(model, options); },
       .ends = [&](ShardedModel& model) { runs.push_back(recorders.at(&model.model())->end()); }});
  return runs;
}

// Every rank of the run, or the one that stands for all.
std::vector<plan::RankToSimulate> ranks_of(const RecordedRun& run, std::span<const plan::StepEvents> programs) {
  std::vector<plan::RankToSimulate> ranks;
  for (const plan::StepEvents& program : programs) {
    plan::RankToSimulate rank{.facts = run.facts, .limits = run.limits, .events = program};
    rank.durations.gather.assign(run.facts.units.size(), 2e-4);
    rank.durations.reduce.assign(run.facts.units.size(), 5e-4);
    if (programs.size() > 1) {
      rank.facts.rank = static_cast<int>(ranks.size());
      for (int peer = 0; peer < run.facts.ranks; ++peer)
        rank.facts.sharers[peer] = peer / run.facts.shards == rank.facts.rank / run.facts.shards;
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::string differences(const RecordedRun& run, const std::vector<plan::SimulatedStep>& steps) {
  EXPECT_GE(steps.size(), 3);
  return first_difference(testing_models::trace_of(steps, run.facts), run.trace) +
         first_difference(testing_models::decisions_of(steps.back().decisions), run.decisions);
}

// The first difference of the row's models on this rank; "" if there is none.
std::string simulate_row(const TableRow& row, World& world, const Options& options, const ScratchDirectory& scratch) {
  std::string found;
  for (const RecordedRun& run : record(row, world, options)) {
    EXPECT_GT(run.trace.size(), 6);
    const auto programs = testing_models::exchange_events(world, scratch.path(), run.events);
    found += differences(run, simulate(ranks_of(run, programs)).at(world.rank()));
    const bool alike = std::ranges::all_of(programs, [&](const auto& other) { return other == programs[0]; });
    if (alike) found += differences(run, simulate(ranks_of(run, {&run.events, 1})).at(0));
  }
  return found;
}

// The planner's facts of the same options are the engine's.
void expect_same_facts(const schedule::Facts& found, const SimulatedCase& one) {
  const auto group = schedule::kStrategies.at(static_cast<size_t>(one.options.strategy)).group;
  const int shards = group == schedule::StrategyMeaning::Group::Rank ? 1
                     : one.options.shard_group_size > 0              ? one.options.shard_group_size
                                                                     : one.ranks;
  const auto way = one.backend == "gloo" ? plan::GatherWay::Messages : plan::GatherWay::SharedMemory;
  const schedule::Facts expected = plan::rank_of({.strategy = static_cast<size_t>(one.options.strategy),
                                                  .units = found.count(),
                                                  .ranks = one.ranks,
                                                  .shards = shards,
                                                  .way = way})
                                       .facts;
  const auto all = [](const schedule::Facts& facts) {
    return std::tuple(facts.ranks, facts.shards, facts.one_sided, facts.any_order, facts.joins);
  };
  EXPECT_EQ(all(found), all(expected));
  if (found.rank == 0) EXPECT_EQ(found.sharers, expected.sharers);
}

bool on_any_rank(World& world, bool holds) {
  torch::Tensor flag = torch::tensor({holds ? 1.0F : 0.0F});
  world.all_reduce_(flag, ReduceOp::Max);
  return flag.item<float>() > 0;
}

// A rank that does not run for 20 ms, as on a busy machine, looks as if it waited for others: its peers then take
// another buffer for gradients.
void expect_simulated(const TableRow& row, World& world, const Options& options, const ScratchDirectory& scratch) {
  constexpr int kTries = 4;
  for (int i = 1; i <= kTries; ++i) {
    const std::string found = simulate_row(row, world, options, scratch);
    if (!on_any_rank(world, !found.empty())) return;
    if (i == kTries) EXPECT_EQ(found, "") << row.name;
  }
}

SimulatedCase simulated_case(const std::string& name, int ranks, const Options& options) {
  return {.name = name, .ranks = ranks, .options = options};
}

std::vector<SimulatedCase> strategies(int ranks) {
  return {simulated_case("FullShard", ranks, {}),
          simulated_case("ShardGradOp", ranks, {.strategy = Strategy::ShardGradOp}),
          simulated_case("ShardOptimizer", ranks, {.strategy = Strategy::ShardOptimizer}),
          simulated_case("NoShard", ranks, {.strategy = Strategy::NoShard})};
}

std::vector<SimulatedCase> hybrids() {
  return {simulated_case("HybridShard", 4, {.strategy = Strategy::HybridShard, .shard_group_size = 2}),
          simulated_case("HybridShardGradOp", 4, {.strategy = Strategy::HybridShardGradOp, .shard_group_size = 2})};
}

std::vector<SimulatedCase> limits() {
  std::vector<SimulatedCase> all;
  for (int buffers : {2, 3}) {
    for (int prefetch : {0, 1, 2}) {
      all.push_back(simulated_case(fmt::format("Buffers{}Prefetch{}", buffers, prefetch), 2,
                                   {.buffers = buffers, .prefetch = prefetch}));
    }
  }
  return all;
}

std::vector<SimulatedCase> over_gloo() {
  std::vector<SimulatedCase> all = strategies(2);
  for (SimulatedCase& one : all) one.backend = "gloo";
  return all;
}

class SimulatedTrace : public ::testing::TestWithParam<SimulatedCase> {};

TEST_P(SimulatedTrace, HasTheActionsOfTheRealOne) {
  const ScratchDirectory scratch;
  run_ranks(fsdp::testing::Job{GetParam().ranks, GetParam().backend}, [&](World& world) {
    for (const RecordedRun& run : record(table_rows().front(), world, GetParam().options))
      expect_same_facts(run.facts, GetParam());
    for (const TableRow& row : table_rows()) expect_simulated(row, world, GetParam().options, scratch);
  });
}

// The first always, and one of the others.
auto first_and_another(std::vector<SimulatedCase> cases) {
  const std::vector<SimulatedCase> others(cases.begin() + 1, cases.end());
  cases.resize(1);
  return drawn<SimulatedCase>(std::move(cases), others);
}

const auto name_of_case = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(OneRank, SimulatedTrace, drawn<SimulatedCase>({}, strategies(1)), name_of_case);
INSTANTIATE_TEST_SUITE_P(TwoRanks, SimulatedTrace, first_and_another(strategies(2)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Gloo, SimulatedTrace, first_and_another(over_gloo()), name_of_case);
INSTANTIATE_TEST_SUITE_P(FourRanks, SimulatedTrace, drawn<SimulatedCase>({}, strategies(4)), name_of_case);
INSTANTIATE_TEST_SUITE_P(GroupsOfTwo, SimulatedTrace, drawn<SimulatedCase>({}, hybrids()), name_of_case);
INSTANTIATE_TEST_SUITE_P(OtherLimits, SimulatedTrace, first_and_another(limits()), name_of_case);

// The comparison sees a simulation that follows another rule.
TEST(SimulatedTraceOfOtherLimits, IsAnother) {
  run_ranks(2, [](World& world) {
    for (RecordedRun run : record(table_rows().front(), world, {})) {
      run.limits.prefetch = 0;
      const auto steps = simulate(ranks_of(run, {&run.events, 1})).at(0);
      EXPECT_NE(first_difference(testing_models::trace_of(steps, run.facts), run.trace), "");
      EXPECT_NE(first_difference(testing_models::decisions_of(steps.back().decisions), run.decisions), "");
    }
  });
}

}  // namespace
}  // namespace fsdp
