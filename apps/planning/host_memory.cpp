#include "planning/host_memory.h"

#include <algorithm>

#include "options/frozen.h"
#include "planning/mesh_memory.h"
#include "run/evaluation_pass.h"

namespace trainer {

namespace {

// Bytes of the logits that linear_cross_entropy makes again.
double logits_again_bytes(const Host& host) { return most_logits_bytes(host) / 4; }

// Beside the activations, when they are most: the gradient of what the head is given, which is in fp32, and the logits
// that are made again, where not all are among the activations. The gradients of the layers come later.
double logits_bytes(const RunPlan& plan, const RunOptions& options) {
  const double element = options.param_dtype == "fp32" ? 4 : 2;
  const auto tokens = static_cast<double>(options.batch * options.model.context);
  const double logits = element * tokens * static_cast<double>(options.model.vocabulary);
  return 4 * tokens * static_cast<double>(options.model.width) +
         (logits > most_logits_bytes(plan.host) ? logits_again_bytes(plan.host) : 0);
}

PlannedOffload::Bytes activations_of(const RunPlan& plan, const RunOptions& options) {
  if (options.offload_activations && plan.offload.is_known()) return plan.offload.bytes(options);
  return {.in_memory = plan.activations.bytes(options)};
}

}  // namespace

double other_tensor_bytes(const RunPlan& plan, const RunOptions& options) {
  if (!plan.tensors.is_known()) return logits_bytes(plan, options);
  const double all = plan.tensors.bytes(options, most_logits_bytes(plan.host) + logits_again_bytes(plan.host));
  return std::max(0.0, all - activations_of(plan, options).in_memory);
}

namespace {

// A validation has passes of its own size, and keeps nothing for a backward.
RunOptions validation_of(const RunOptions& options) {
  RunOptions validation = options;
  validation.eval_only = true;
  validation.batch = windows_of_pass(options.model.context);
  if (options.validation_windows > 0) validation.batch = std::min(validation.batch, options.validation_windows);
  validation.activation_checkpoint = "none";
  validation.activation_memory.reset();
  validation.offload_activations = false;
  return validation;
}

// Under a budget for activations some layers may keep all, and others their inputs.
double temporary_bytes_of_steps(const RunPlan& plan) {
  if (!plan.options.activation_memory) return other_tensor_bytes(plan, plan.options);
  RunOptions without_budget = plan.options;
  without_budget.activation_memory.reset();
  double most = 0;
  for (const char* recomputed : {"none", "all"}) {
    without_budget.activation_checkpoint = recomputed;
    most = std::max(most, other_tensor_bytes(plan, without_budget));
  }
  return most;
}

// A validation keeps no activations. Where its tensors take more than a step's activations and other tensors together,
// the difference counts as other tensors.
double temporary_bytes(const RunPlan& plan) {
  const double of_steps = temporary_bytes_of_steps(plan);
  if (!plan.tensors.is_known()) return of_steps;
  const double of_validation = plan.tensors.bytes(validation_of(plan.options), most_logits_bytes(plan.host));
  return std::max(of_steps, of_validation - activations_of(plan, plan.options).in_memory);
}

}  // namespace

double HostMemory::of_rank(const MemoryPlan& plan) const {
  const auto all = static_cast<double>(plan.total());
  const double of_step = std::max(all, all - static_cast<double>(plan.late) + activations + temporary) +
                         static_cast<double>(plan.save_copy);
  const double of_resume = resumes_from_memory ? 2 * static_cast<double>(plan.parameters + plan.optimizer) : 0;
  return std::max(of_step, of_resume) + process;
}

double HostMemory::largest_rank() const {
  double most = 0;
  for (const MemoryPlan& plan : model) most = std::max(most, of_rank(plan));
  return most + program;
}

double HostMemory::total() const {
  double sum = program;
  for (const MemoryPlan& plan : model) sum += of_rank(plan);
  return sum;
}

double HostMemory::in_files() const {
  double sum = 0;
  for (const MemoryPlan& plan : model) sum += static_cast<double>(plan.offloaded) + offloaded_activations;
  return sum;
}

HostMemory host_memory(const RunPlan& plan, const ModelParts& parts) {
  const PlannedOffload::Bytes activations = activations_of(plan, plan.options);
  return {.model = plan_memory(parts.units, planned_sharding(plan.options, plan.hosts, plan.host.on_gpus)),
          .activations = activations.in_memory,
          .offloaded_activations = activations.in_files,
          .temporary = temporary_bytes(plan),
          .process = plan.host.process_bytes,
          .program = plan.host.program_bytes,
          .resumes_from_memory = plan.options.hot_restart && !plan.host.on_gpus};
}

namespace {

HostMemory host_memory(const RunPlan& plan) {
  return host_memory(plan, parts_of(plan.options.model, frozen_parameters(plan.options)));
}

}  // namespace

double host_bytes(const RunPlan& plan) {
  return plan.options.has_mesh() ? mesh_memory(plan).of_host : host_memory(plan).total();
}

double host_bytes_in_files(const RunPlan& plan) {
  return plan.options.has_mesh() ? mesh_memory(plan).in_files : host_memory(plan).in_files();
}

}  // namespace trainer
