// Simulated pipelines (plan/pipeline_simulation.h) against real ones with sharded stages: the same actions on every
// rank, event for event, with every schedule.
#include "plan/pipeline_simulation.h"

#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "engine/recorded_program.h"
#include "pipeline/sharded_pipeline.h"
#include "support/drawn.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using plan::Pass;
using plan::StageWork;
using plan::UnitId;
using testing_models::first_difference;
using testing_models::ProgramRecorder;
using testing_models::RecordedRun;
using testing_models::ShardedPipeline;
using enum PipelineSchedule;

constexpr int kPipelineRanks = 2, kLayers = 4, kSteps = 3;

struct SimulatedPipelineCase {
  PipelineSchedule schedule = OneForwardOneBackward;
  int stages_per_rank = 1;
  Strategy strategy = Strategy::FullShard;
  GatherEvery gathers = GatherEvery::MicroBatch;
  std::string backend = "shm";

  friend void PrintTo(const SimulatedPipelineCase& one, std::ostream* out) {
    *out << static_cast<int>(one.schedule) << "x" << one.stages_per_rank << "_" << static_cast<int>(one.strategy) << "_"
         << static_cast<int>(one.gathers) << "_" << one.backend;
  }
};

// Linear layers, each a unit with a weight and a bias. The first layer of the model makes no gradient of its input.
StageWork work_of(int stage, int layers, UnitId first) {
  StageWork work;
  for (int i = 0; i < layers; ++i) {
    const UnitId unit = first + i;
    const bool is_first_of_model = stage == 0 && i == 0;
    const std::vector<UnitId> reads = is_first_of_model ? std::vector<UnitId>() : std::vector{unit};
    work.units.push_back(unit);
    work.forward.push_back({.units = {unit}, .seconds = 1});
    work.backward.insert(work.backward.begin(), {.units = reads, .seconds = 0, .gradients = {{unit, 2}}});
    work.weight_gradient.insert(work.weight_gradient.begin(), {.gradients = {{unit, 2}}});
    if (!is_first_of_model) work.input_gradient.insert(work.input_gradient.begin(), {.units = reads, .seconds = 1});
  }
  return work;
}

plan::PipelineToSimulate pipeline_of(const RecordedRun& run, const std::string& schedule) {
  plan::PipelineToSimulate pipeline{.schedule = stages::read_csv(schedule)};
  const int layers = kLayers / pipeline.schedule.stages();
  for (int stage = 0; stage < pipeline.schedule.stages(); ++stage)
    pipeline.stages.push_back(work_of(stage, layers, stage / kPipelineRanks * layers));
  for (int rank = 0; rank < kPipelineRanks; ++rank)
    pipeline.ranks.push_back({.facts = run.facts, .limits = run.limits});
  return pipeline;
}

class SimulatedPipeline : public ::testing::TestWithParam<SimulatedPipelineCase> {};

TEST_P(SimulatedPipeline, HasTheActionsOfTheRealOne) {
  run_ranks(fsdp::testing::Job{4, GetParam().backend}, [](World& world) {
    const Mesh mesh(world, {{"pipeline", kPipelineRanks}, {"data", 2}});
    const auto& [schedule, stages_per_rank, strategy, gathers, backend] = GetParam();
    const Options options{.strategy = strategy, .units = units_of<torch::nn::LinearImpl>()};
    ShardedPipeline model(testing_models::four_layers({}), mesh["pipeline"], mesh["data"], options,
                          {.schedule = schedule, .stages_per_rank = stages_per_rank, .gathers = gathers});
    ProgramRecorder recorder(model.sharded, options);
    AdamW optimizer(model.sharded);
    for (int i = 0; i < kSteps; ++i) {
      model.step();
      optimizer.step();
      optimizer.zero_grad();
    }
    const RecordedRun run = recorder.end();
    EXPECT_GT(run.trace.size(), 60);
    std::vector<plan::SimulatedStep> steps;
    for (const auto& step : simulate_pipeline(pipeline_of(run, model.pipeline.report().schedule), kSteps))
      steps.push_back(step.ranks.at(mesh.coordinate("pipeline")));
    EXPECT_EQ(first_difference(testing_models::trace_of(steps, run.facts), run.trace), "");
    EXPECT_EQ(first_difference(testing_models::decisions_of(steps.back().decisions), run.decisions), "");
  });
}

std::vector<SimulatedPipelineCase> pipeline_cases() {
  std::vector<SimulatedPipelineCase> all;
  const std::vector<std::pair<PipelineSchedule, int>> schedules{
      {OneAtATime, 2}, {AllForwardAllBackward, 2}, {OneForwardOneBackward, 1}, {Interleaved, 2}, {ZeroBubble, 1},
      {ZeroBubble, 2}};
  for (const auto& [schedule, stages] : schedules) {
    for (const GatherEvery gathers : {GatherEvery::MicroBatch, GatherEvery::Step})
      all.push_back({schedule, stages, Strategy::FullShard, gathers, "shm"});
    all.push_back({schedule, stages, Strategy::FullShard, GatherEvery::MicroBatch, "gloo"});
    for (const Strategy strategy : {Strategy::ShardGradOp, Strategy::ShardOptimizer, Strategy::NoShard})
      all.push_back({schedule, stages, strategy, GatherEvery::MicroBatch, "shm"});
  }
  return all;
}

// Two whose actions differ most.
bool is_tried_always(const SimulatedPipelineCase& one) {
  return (one.schedule == OneForwardOneBackward && one.gathers == GatherEvery::Step) ||
         (one.schedule == Interleaved && one.backend == "gloo");
}

std::vector<SimulatedPipelineCase> pipeline_cases(bool always) {
  std::vector<SimulatedPipelineCase> cases = pipeline_cases();
  std::erase_if(cases, [&](const SimulatedPipelineCase& one) { return is_tried_always(one) != always; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Schedules, SimulatedPipeline,
                         fsdp::testing::drawn(pipeline_cases(/*always=*/true), pipeline_cases(/*always=*/false)),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
