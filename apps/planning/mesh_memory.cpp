#include "planning/mesh_memory.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "planning/mesh_traffic.h"
#include "planning/stage_blocks.h"

namespace trainer {

namespace {

using fsdp::plan::Mesh;
using fsdp::plan::MeshCoordinates;
using fsdp::plan::MeshPlaces;

struct HostSum {
  double bytes = 0, in_files = 0;
};

// By host.
std::vector<HostSum> sums_of_hosts(const MeshMemory& memory, const MeshPlaces& places) {
  std::vector<HostSum> hosts(static_cast<size_t>(places.hosts()), {.bytes = memory.program});
  places.for_each([&](const MeshCoordinates& at) {
    const StageMemory& stage = memory.of_stage[static_cast<size_t>(at.pipeline)];
    const fsdp::plan::StateMemory& plan = stage.model[static_cast<size_t>(at.data) % stage.model.size()];
    HostSum& host = hosts[static_cast<size_t>(places.host_of(at))];
    host.bytes += stage.of_rank(plan) + memory.process;
    host.in_files += static_cast<double>(plan.offloaded);
  });
  return hosts;
}

}  // namespace

namespace {

int64_t distinct_units(const std::vector<size_t>& uses) {
  return std::ssize(std::set<size_t>(uses.begin(), uses.end()));
}

}  // namespace

double StageMemory::of_rank(const fsdp::plan::StateMemory& plan) const {
  return static_cast<double>(plan.total() + plan.save_copy) + tensors.activations + tensors.messages + tensors.others;
}

const fsdp::plan::StateMemory& StageMemory::largest() const {
  return *std::ranges::max_element(model, {},
                                   [](const fsdp::plan::StateMemory& plan) { return plan.total() + plan.save_copy; });
}

double MeshMemory::largest_rank() const {
  double most = 0;
  for (const StageMemory& stage : of_stage) most = std::max(most, stage.of_rank(stage.largest()));
  return most + process + program;
}

std::vector<fsdp::plan::StateMemory> plan_stage(const RunPlan& plan, const Mesh& mesh, const MeshPlaces& places,
                                                int pipeline_rank, int64_t tensor_rank) {
  return plan_stage(plan, mesh, places, stage_blocks(plan.options, tensor_rank), pipeline_rank, tensor_rank);
}

std::vector<fsdp::plan::StateMemory> plan_stage(const RunPlan& plan, const Mesh& mesh, const MeshPlaces& places,
                                                const std::vector<fsdp::plan::Block>& blocks, int pipeline_rank,
                                                int64_t tensor_rank) {
  fsdp::plan::Sharding sharding = stage_sharding(plan.options, plan.host.on_gpus, places, pipeline_rank, tensor_rank);
  // The head's unit is used by the loss as well, and stages of one rank take turns.
  sharding.first_unit_stays_open = pipeline_rank + 1 == mesh.sizes.pipeline || mesh.stages() > mesh.sizes.pipeline;
  const fsdp::plan::RankUnits units = units_of_rank(mesh, blocks, pipeline_rank);
  for (const fsdp::plan::StageUses& stage : units.of_stage)
    sharding.units_of_backward = std::max(sharding.units_of_backward, distinct_units(stage.forward));
  return fsdp::plan::state_memory(units.units, sharding);
}

MeshMemory mesh_memory(const RunPlan& plan) {
  const Mesh mesh = planned_mesh(plan.options);
  const MeshPlaces places(mesh.sizes, plan.hosts);
  MeshMemory memory;
  memory.process = plan.host.process_bytes;
  memory.program = plan.host.program_bytes;
  const StageTensors stages = stage_tensors(plan, mesh);
  const std::vector<fsdp::plan::Block> blocks = stage_blocks(plan.options, 0);
  for (int rank = 0; rank < mesh.sizes.pipeline; ++rank) {
    memory.of_stage.push_back({.model = plan_stage(plan, mesh, places, blocks, rank, 0),
                               .tensors = tensors_of_rank(plan, mesh, stages, rank)});
  }
  for (const HostSum& host : sums_of_hosts(memory, places)) {
    memory.of_host = std::max(memory.of_host, host.bytes);
    memory.in_files = std::max(memory.in_files, host.in_files);
  }
  return memory;
}

}  // namespace trainer
