#include "planning/plan_numbers.h"

#include <algorithm>

#include "models/model_config.h"
#include "planning/engine_memory.h"
#include "planning/fit.h"
#include "planning/host_memory.h"
#include "planning/listed_numbers.h"
#include "planning/mesh_memory.h"
#include "planning/mesh_traffic.h"
#include "planning/planned_time.h"

namespace trainer {

namespace {

PlannedMemory largest_of_host(const RunPlan& plan) {
  const HostMemory host = host_memory(plan, parts_of(plan.options));
  PlannedMemory most;
  for (const fsdp::plan::StateMemory& state : host.model) {
    const PlannedMemory memory = planned_memory(state, host.activations, host.temporary);
    if (memory.peak > most.peak) most = memory;
  }
  return most;
}

PlannedMemory largest_of_mesh(const RunPlan& plan) {
  PlannedMemory most;
  for (const StageMemory& stage : mesh_memory(plan).of_stage) {
    const PlannedMemory memory =
        planned_memory(stage.largest(), stage.tensors.activations, stage.tensors.messages + stage.tensors.others);
    if (memory.peak > most.peak) most = memory;
  }
  return most;
}

PlannedMemory memory_of_run(const PlanTarget& target, const RunPlan& plan) {
  if (target.engine != "libfsdp") return engine_memory(target, plan.options);
  return memory_of_largest_rank(plan);
}

// The rank that receives most across hosts, or most in all, stands for the others.
PlannedCommunication communication_of(const RunPlan& plan) {
  const fsdp::plan::Mesh mesh = planned_mesh(plan.options);
  const fsdp::plan::MeshPlaces places(mesh.sizes, plan.hosts);
  PlannedCommunication most;
  for (fsdp::plan::MeshCoordinates at; at.pipeline < mesh.sizes.pipeline; ++at.pipeline) {
    const fsdp::plan::Traffic sum = traffic_of_rank(plan.options, plan.host.on_gpus, mesh, places, at).sum();
    if (std::pair(sum.across, sum.within) > std::pair(most.across_hosts, most.within_hosts))
      most = {.within_hosts = sum.within, .across_hosts = sum.across};
  }
  return most;
}

}  // namespace

PlannedMemory memory_of_largest_rank(const RunPlan& plan) {
  return plan.options.has_mesh() ? largest_of_mesh(plan) : largest_of_host(plan);
}

PlannedMemory planned_memory(const fsdp::plan::StateMemory& state, double activations, double others) {
  PlannedMemory memory{.parameters = static_cast<double>(state.parameters),
                       .gradients = static_cast<double>(state.gradients),
                       .optimizer = static_cast<double>(state.optimizer),
                       .full_parameters = static_cast<double>(state.full_parameters),
                       .full_gradients = static_cast<double>(state.full_gradients),
                       .activations = activations,
                       .others = others};
  const auto all = static_cast<double>(state.total());
  memory.peak = std::max(all, all - static_cast<double>(state.late) + activations + others);
  return memory;
}

PlannedMemory memory_of_plan(const PlanTarget& target, const RunOptions& options) {
  return memory_of_run(target, plan_on(target, options));
}

// Ranks on CPUs share the memory of their host. On the machine at hand the check before a run is asked as well.
bool plan_fits(const PlanTarget& target, const RunOptions& options, const PlannedMemory& memory) {
  const bool shares_memory = target.hardware.has_cpus();
  if (!shares_memory && memory.peak > target.memory) return false;
  const RunPlan plan = plan_on(target, options);
  if (target.here != nullptr) return fit(plan) != Fit::kNot;
  return !shares_memory || host_bytes(plan) <= target.memory;
}

PlanNumbers plan_numbers(const PlanTarget& target, const RunOptions& options) {
  if (target.listed != nullptr) return listed_numbers(target, options);
  const RunPlan plan = plan_on(target, options);
  PlanNumbers numbers{.parameters = models::parameter_numel(options.model),
                      .memory = memory_of_run(target, plan),
                      .communication = communication_of(plan)};
  if (const auto step = planned_step(target, options)) {
    numbers.time = PlannedTime{.step = step->step,
                               .compute = step->compute,
                               .exposed_communication = step->exposed_communication,
                               .idle = step->idle};
  }
  if (!plan.host.on_gpus) numbers.host_bytes = host_bytes(plan);
  numbers.fits = plan_fits(target, options, numbers.memory);
  return numbers;
}

nlohmann::json plan_json(const PlanNumbers& numbers) {
  const PlannedMemory& memory = numbers.memory;
  nlohmann::json json = {
      {"parameters", numbers.parameters},
      {"memory",
       {{"parameters", memory.parameters},
        {"gradients", memory.gradients},
        {"optimizer", memory.optimizer},
        {"full_parameters", memory.full_parameters},
        {"full_gradients", memory.full_gradients},
        {"activations", memory.activations},
        {"others", memory.others},
        {"peak", memory.peak}}},
      {"communication",
       {{"within_hosts", numbers.communication.within_hosts}, {"across_hosts", numbers.communication.across_hosts}}},
      {"time", nullptr},
      {"fits", numbers.fits}};
  if (!memory.has_activations) {
    for (const char* name : {"activations", "others", "peak"}) json["memory"][name] = nullptr;
    if (numbers.fits) json["fits"] = nullptr;  // the activations decide
  }
  if (numbers.host_bytes) json["memory"]["host"] = *numbers.host_bytes;
  if (numbers.time) {
    json["time"] = {{"step", numbers.time->step},
                    {"compute", numbers.time->compute},
                    {"exposed_communication", numbers.time->exposed_communication},
                    {"idle", numbers.time->idle}};
  }
  return json;
}

}  // namespace trainer
