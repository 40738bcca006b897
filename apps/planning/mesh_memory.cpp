#include "planning/mesh_memory.h"

#include <algorithm>
#include <set>

#include "planning/stage_units.h"

namespace trainer {

namespace {

// The number of hosts of a stage's data ranks. If they lie unevenly: as if each had a host of its own.
int64_t hosts_of_stage(const MeshPlaces& places, const PlannedMesh& mesh, int pipeline_rank, int64_t tensor_rank) {
  const std::vector<int64_t> all =
      places.hosts_along(&MeshCoordinates::data, {.pipeline = pipeline_rank, .tensor = tensor_rank});
  const std::set<int64_t> hosts(all.begin(), all.end());
  const auto number = static_cast<int64_t>(hosts.size());
  const bool even =
      std::ranges::all_of(hosts, [&](int64_t host) { return std::ranges::count(all, host) * number == mesh.data; });
  return even ? number : mesh.data;
}

struct HostSum {
  double bytes = 0, in_files = 0;
};

// By host.
std::vector<HostSum> sums_of_hosts(const MeshMemory& memory, const MeshPlaces& places) {
  std::vector<HostSum> hosts(static_cast<size_t>(places.hosts()), {.bytes = memory.program});
  places.for_each([&](const MeshCoordinates& at) {
    const StageMemory& stage = memory.of_stage[static_cast<size_t>(at.pipeline)];
    const MemoryPlan& plan = stage.model[static_cast<size_t>(at.data) % stage.model.size()];
    HostSum& host = hosts[static_cast<size_t>(places.host_of(at))];
    host.bytes += stage.of_rank(plan) + memory.process;
    host.in_files += static_cast<double>(plan.offloaded);
  });
  return hosts;
}

}  // namespace

double StageMemory::of_rank(const MemoryPlan& plan) const {
  return static_cast<double>(plan.total() + plan.save_copy) + tensors.activations + tensors.messages + tensors.others;
}

const MemoryPlan& StageMemory::largest() const {
  return *std::ranges::max_element(model, {}, [](const MemoryPlan& plan) { return plan.total() + plan.save_copy; });
}

double MeshMemory::largest_rank() const {
  double most = 0;
  for (const StageMemory& stage : of_stage) most = std::max(most, stage.of_rank(stage.largest()));
  return most + process + program;
}

std::vector<MemoryPlan> plan_stage(const RunPlan& plan, const PlannedMesh& mesh, const MeshPlaces& places,
                                   int pipeline_rank, int64_t tensor_rank) {
  const int64_t hosts = hosts_of_stage(places, mesh, pipeline_rank, tensor_rank);
  PlannedSharding sharding = planned_sharding(plan.options, hosts, plan.host.on_gpus);
  // The head's unit is used by the loss as well, and stages of one rank take turns.
  sharding.first_unit_stays_open = pipeline_rank + 1 == mesh.pipeline || mesh.stages() > mesh.pipeline;
  return plan_memory(units_of_rank(mesh, plan.options, pipeline_rank, tensor_rank), sharding);
}

MeshMemory mesh_memory(const RunPlan& plan) {
  const PlannedMesh mesh = planned_mesh(plan.options);
  const MeshPlaces places(mesh, plan.hosts);
  MeshMemory memory;
  memory.process = plan.host.process_bytes;
  memory.program = plan.host.program_bytes;
  for (int rank = 0; rank < mesh.pipeline; ++rank) {
    memory.of_stage.push_back(
        {.model = plan_stage(plan, mesh, places, rank), .tensors = tensors_of_rank(plan, mesh, rank)});
  }
  for (const HostSum& host : sums_of_hosts(memory, places)) {
    memory.of_host = std::max(memory.of_host, host.bytes);
    memory.in_files = std::max(memory.in_files, host.in_files);
  }
  return memory;
}

}  // namespace trainer
