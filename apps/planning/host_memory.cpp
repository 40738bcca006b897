#include "planning/host_memory.h"

#include <algorithm>

#include "planning/element_bytes.h"
#include "planning/mesh_memory.h"
#include "planning/planned_activations.h"
#include "planning/planned_tensors.h"

namespace trainer {

double other_tensor_bytes(const RunOptions& options, bool on_gpus) {
  const double all = planned_tensor_bytes(options, on_gpus);
  return std::max(0.0, all - planned_activations(options, on_gpus).in_memory);
}

namespace {

// Under a budget for activations some layers may keep all, and others their inputs.
double temporary_bytes_of_steps(const RunPlan& plan) {
  if (!plan.options.activation_memory) return other_tensor_bytes(plan.options, plan.host.on_gpus);
  RunOptions without_budget = plan.options;
  without_budget.activation_memory.reset();
  double most = 0;
  for (const char* recomputed : {"none", "all"}) {
    without_budget.activation_checkpoint = recomputed;
    most = std::max(most, other_tensor_bytes(without_budget, plan.host.on_gpus));
  }
  return most;
}

// A validation keeps no activations. Where its tensors take more than a step's activations and other tensors together,
// the difference counts as other tensors.
double temporary_bytes(const RunPlan& plan) {
  const double of_steps = temporary_bytes_of_steps(plan);
  if (!plan.validates) return of_steps;
  const double of_validation = validation_tensor_bytes(plan.options, plan.host.on_gpus);
  return std::max(of_steps, of_validation - planned_activations(plan.options, plan.host.on_gpus).in_memory);
}

}  // namespace

double HostMemory::of_rank(const fsdp::plan::StateMemory& plan) const {
  const auto all = static_cast<double>(plan.total());
  const double of_step = std::max(all, all - static_cast<double>(plan.late) + activations + temporary) +
                         static_cast<double>(plan.save_copy);
  const double of_resume = resumes_from_memory ? 2 * static_cast<double>(plan.parameters + plan.optimizer) : 0;
  return std::max(of_step, of_resume) + process;
}

double HostMemory::largest_rank() const {
  double most = 0;
  for (const fsdp::plan::StateMemory& plan : model) most = std::max(most, of_rank(plan));
  return most + program;
}

double HostMemory::total() const {
  double sum = program;
  for (const fsdp::plan::StateMemory& plan : model) sum += of_rank(plan);
  return sum;
}

double HostMemory::in_files() const {
  double sum = 0;
  for (const fsdp::plan::StateMemory& plan : model) sum += static_cast<double>(plan.offloaded) + offloaded_activations;
  return sum;
}

HostMemory host_memory(const RunPlan& plan, const ModelParts& parts) {
  const PlannedActivations activations = planned_activations(plan.options, plan.host.on_gpus);
  return {.model = fsdp::plan::state_memory(parts.units, planned_sharding(plan.options, plan.hosts, plan.host.on_gpus)),
          .activations = activations.in_memory,
          .offloaded_activations = activations.in_files,
          .temporary = temporary_bytes(plan),
          .process = plan.host.process_bytes,
          .program = plan.host.program_bytes,
          .resumes_from_memory = plan.options.hot_restart && !plan.host.on_gpus};
}

namespace {

HostMemory host_memory(const RunPlan& plan) { return host_memory(plan, parts_of(plan.options)); }

}  // namespace

double host_bytes(const RunPlan& plan) {
  return plan.options.has_mesh() ? mesh_memory(plan).of_host : host_memory(plan).total();
}

double host_bytes_in_files(const RunPlan& plan) {
  return plan.options.has_mesh() ? mesh_memory(plan).in_files : host_memory(plan).in_files();
}

}  // namespace trainer
