// Pipelines in simulated time: equal to stages::timing_of where nothing but passes takes time, and longer by what
// sharded stages expose.
#include "plan/pipeline_simulation.h"

#include <gmock/gmock.h>

#include <string>

#include "fsdp/error.h"
#include "plan/chain.h"
#include "schedule/strategies.h"
#include "stages/rewrites.h"
#include "stages/schedules.h"
#include "stages/timing.h"

namespace fsdp::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kPipelineRanks = 4;

struct PipelineCase {
  const char* schedule;
  int stages_per_rank;

  friend void PrintTo(const PipelineCase& one, std::ostream* out) { *out << one.schedule; }
};

// Each stage has one unit, and takes a little longer than the one before.
stages::StageTimes times_of(int stage) {
  return {.forward = 1 + 0.125 * stage, .input_gradient = 1.5, .weight_gradient = 1 + 0.25 * stage};
}

StageWork work_of(int stage, UnitId unit) {
  const auto [forward, input, weight] = times_of(stage);
  return {.forward = {{.units = {unit}, .seconds = forward}},
          .backward = {{.units = {unit}, .seconds = input + weight, .gradients = {{unit}}}},
          .input_gradient = {{.units = {unit}, .seconds = input}},
          .weight_gradient = {{.seconds = weight, .gradients = {{unit}}}},
          .units = {unit}};
}

PipelineToSimulate pipeline_of(const PipelineCase& one, int micro_batches, int data_ranks) {
  PipelineToSimulate pipeline;
  pipeline.schedule = stages::add_messages(
      stages::named_schedule(one.schedule).generate(kPipelineRanks, one.stages_per_rank, micro_batches));
  for (int stage = 0; stage < pipeline.schedule.stages(); ++stage)
    pipeline.stages.push_back(work_of(stage, stage / kPipelineRanks));
  for (int rank = 0; rank < kPipelineRanks; ++rank) {
    std::vector<std::string> units;
    for (int stage = rank; stage < pipeline.schedule.stages(); stage += kPipelineRanks)
      units.push_back("stages." + std::to_string(stage));
    const int count = static_cast<int>(units.size());
    pipeline.ranks.push_back({.facts = schedule::facts_of(units, 0, data_ranks, data_ranks),
                              .limits = schedule::limits_of(count, 2, 1, schedule::FullUntil::BufferNeeded, false)});
  }
  return pipeline;
}

class PipelineSimulation : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(PipelineSimulation, TakesAsLongAsItsPasses) {
  PipelineToSimulate pipeline = pipeline_of(GetParam(), /*micro_batches=*/8, /*data_ranks=*/2);
  pipeline.message = 0.0625;
  std::vector<stages::StageTimes> times;
  for (int stage = 0; stage < pipeline.schedule.stages(); ++stage) times.push_back(times_of(stage));
  const stages::StageTiming expected = stages::timing_of(pipeline.schedule, times, pipeline.message);
  for (const SimulatedPipelineStep& step : simulate_pipeline(pipeline)) {
    EXPECT_NEAR(step.makespan, expected.makespan, kRounding);
    EXPECT_NEAR(step.idle_share, expected.idle_share, kRounding);
    for (int rank = 0; rank < kPipelineRanks; ++rank)
      EXPECT_NEAR(step.idle_shares[rank], expected.idle_shares[rank], kRounding);
  }
}

// One gather per step and unit, in place of one per pass or nearly.
TEST_P(PipelineSimulation, ExposesFewerGathersIfStagesStayFull) {
  PipelineToSimulate pipeline = pipeline_of(GetParam(), 8, 2);
  for (PipelineRank& rank : pipeline.ranks) rank.durations.gather.assign(rank.facts.units.size(), 0.5);
  const auto gathers = [](const SimulatedPipelineStep& step, int rank) {
    return std::ranges::count(step.ranks[rank].actions, SimulatedAction::Kind::Gather, &SimulatedAction::kind);
  };
  const SimulatedPipelineStep often = simulate_pipeline(pipeline).back();
  pipeline.schedule = stages::add_gathers(pipeline.schedule);
  const SimulatedPipelineStep once = simulate_pipeline(pipeline).back();
  EXPECT_LT(once.makespan, often.makespan);
  for (int rank = 0; rank < kPipelineRanks; ++rank) {
    EXPECT_EQ(gathers(once, rank), GetParam().stages_per_rank);
    EXPECT_GT(gathers(often, rank), GetParam().stages_per_rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineSimulation,
                         ::testing::Values(PipelineCase{"OneAtATime", 2}, PipelineCase{"AllForwardAllBackward", 2},
                                           PipelineCase{"OneForwardOneBackward", 1}, PipelineCase{"Interleaved", 2},
                                           PipelineCase{"ZeroBubble", 1}),
                         ::testing::PrintToStringParamName());

TEST(PipelineSimulationErrors, NameWhatIsMissing) {
  const PipelineCase one{"OneForwardOneBackward", 1};
  const auto refusal = [&](const std::function<void(PipelineToSimulate&)>& change, const char* message) {
    PipelineToSimulate pipeline = pipeline_of(one, 2, 1);
    change(pipeline);
    EXPECT_THAT([&] { simulate_pipeline(pipeline); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refusal([](auto& pipeline) { pipeline.stages.pop_back(); }, "the work of 3 stages, expected 4");
  refusal([](auto& pipeline) { pipeline.ranks.pop_back(); }, "3 ranks, expected 4");
  refusal(
      [&](auto& pipeline) { pipeline.schedule = stages::named_schedule(one.schedule).generate(kPipelineRanks, 1, 2); },
      "without messages");
  refusal([](auto& pipeline) { pipeline.message = -1; }, "-1 seconds");
}

}  // namespace
}  // namespace fsdp::plan
