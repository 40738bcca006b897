#include "planning/planned_mesh.h"

#include <algorithm>
#include <numeric>

#include "models/block_costs.h"
#include "stages/cuts.h"
#include "stages/schedules.h"
#include "stages/timing.h"

namespace trainer {

namespace stages = fsdp::stages;

namespace {

// The words of the options are in the order of the schedules.
const stages::NamedSchedule& schedule_of(const RunOptions& options) {
  const auto* word = std::ranges::find(kPipelineSchedules, options.pipeline_schedule);
  return stages::named_schedules()[static_cast<size_t>(word - kPipelineSchedules.begin())];
}

std::vector<int> cuts_of(const RunOptions& options) {
  const std::vector<double> costs = models::block_costs(options.model, options.model.context);
  const auto count = static_cast<int>(options.stage_count());
  return options.stages == "auto" ? stages::even_cuts(costs, count)
                                  : stages::read_cuts(options.stages, static_cast<int>(costs.size()), count);
}

stages::StageTimes times_of_stage(const PlannedMesh& mesh, const RunOptions& options, int stage,
                                  const std::vector<models::BlockOperations>& operations) {
  const std::vector<models::ModelBlock> blocks = models::blocks(options.model);
  const models::Recomputation recomputation = options.recomputation();
  const int first = mesh.first_block(stage);
  stages::StageTimes times;
  int64_t layer =
      std::count_if(blocks.begin(), blocks.begin() + first, [](const auto& block) { return block.is_layer; });
  for (int i = first; i < first + mesh.cuts[static_cast<size_t>(stage)]; ++i) {
    const auto& [forward, input_gradient, weight_gradient] = operations[static_cast<size_t>(i)];
    times.forward += forward;
    times.input_gradient += input_gradient;
    times.weight_gradient += weight_gradient;
    if (!blocks[static_cast<size_t>(i)].is_layer) continue;
    const bool again = recomputation.of(layer++, options.model.layers) && !recomputation.keeps_products;
    if (again) times.input_gradient += forward;
  }
  return times;
}

}  // namespace

int PlannedMesh::first_block(int stage) const { return std::accumulate(cuts.begin(), cuts.begin() + stage, 0); }

std::vector<int> PlannedMesh::stages_of(int pipeline_rank) const {
  std::vector<int> own;
  for (int stage = pipeline_rank; stage < stages(); stage += static_cast<int>(pipeline)) own.push_back(stage);
  return own;
}

PlannedMesh planned_mesh(const RunOptions& options) {
  const stages::NamedSchedule& schedule = schedule_of(options);
  return {
      .data = options.data_ranks(),
      .pipeline = options.pipeline_parallel,
      .tensor = options.tensor_parallel,
      .cuts = cuts_of(options),
      .schedule = schedule.generate(static_cast<int>(options.pipeline_parallel),
                                    static_cast<int>(options.stages_per_rank), static_cast<int>(options.micro_batches)),
      .schedule_name = schedule.name};
}

IdleShares idle_shares(const PlannedMesh& mesh, const RunOptions& options) {
  const auto operations = models::block_operations(options.model, options.model.context);
  std::vector<stages::StageTimes> times;
  for (int stage = 0; stage < mesh.stages(); ++stage) times.push_back(times_of_stage(mesh, options, stage, operations));
  const stages::StageTiming timing = stages::timing_of(mesh.schedule, times);
  return {.of_rank = timing.idle_shares,
          .mean = timing.idle_share,
          .equal_stages = stages::idle_share_formula(mesh.schedule_name, static_cast<int>(mesh.pipeline),
                                                     static_cast<int>(options.stages_per_rank),
                                                     static_cast<int>(options.micro_batches))};
}

}  // namespace trainer
