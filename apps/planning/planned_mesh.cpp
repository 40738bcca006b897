#include "planning/planned_mesh.h"

#include <algorithm>

#include "models/block_costs.h"
#include "planning/second_forwards.h"
#include "stages/cuts.h"
#include "stages/schedules.h"

namespace trainer {

namespace stages = fsdp::stages;

namespace {

// The words of the options are in the order of the schedules.
std::string_view schedule_of(const RunOptions& options) {
  const auto* word = std::ranges::find(kPipelineSchedules, options.pipeline_schedule);
  return stages::named_schedules()[static_cast<size_t>(word - kPipelineSchedules.begin())].name;
}

}  // namespace

std::vector<int> planned_cuts(const RunOptions& options) {
  const std::vector<double> costs = models::block_costs(options.model, options.model.context);
  const auto count = static_cast<int>(options.stage_count());
  return options.stages == "auto" ? stages::even_cuts(costs, count)
                                  : stages::read_cuts(options.stages, static_cast<int>(costs.size()), count);
}

fsdp::plan::Mesh planned_mesh(const RunOptions& options) {
  return fsdp::plan::mesh_of(
      {.data = options.data_ranks(), .pipeline = options.pipeline_parallel, .tensor = options.tensor_parallel},
      planned_cuts(options), schedule_of(options), options.micro_batches);
}

fsdp::plan::IdleShares idle_shares(const fsdp::plan::Mesh& mesh, const RunOptions& options) {
  const std::vector<bool> again = second_forwards(options);
  std::vector<stages::StageTimes> times;
  for (const auto& [forward, input_gradient, weight_gradient] :
       models::block_operations(options.model, options.model.context)) {
    const double second = again[times.size()] ? forward : 0;
    times.push_back({forward, input_gradient + second, weight_gradient});
  }
  return fsdp::plan::idle_shares(mesh, times);
}

}  // namespace trainer
