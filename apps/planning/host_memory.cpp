#include "planning/host_memory.h"

#include <algorithm>

#include "options/frozen.h"

namespace trainer {

namespace {

// Beside the activations, when they are most: the logits that are there at a time, which become their own gradient.
// The gradients of the layers come later, and are smaller.
double temporary_bytes(const Options& options) {
  const double element = options.param_dtype == "fp32" ? 4 : 2;
  const auto tokens = static_cast<double>(options.batch * options.model.context);
  return std::min(element * tokens * static_cast<double>(options.model.vocabulary), kLogitsBytes);
}

}  // namespace

double HostMemory::largest_rank() const {
  double most = 0;
  for (const MemoryPlan& plan : model) most = std::max(most, static_cast<double>(plan.total()));
  return most + activations + temporary + process + program;
}

double HostMemory::total() const {
  double sum = program;
  for (const MemoryPlan& plan : model) sum += static_cast<double>(plan.total()) + activations + temporary + process;
  return sum;
}

HostMemory host_memory(const RunPlan& plan, const ModelParts& parts) {
  return {.model = plan_memory(parts.units, planned_sharding(plan.options, plan.hosts)),
          .activations = plan.activations.bytes(plan.options),
          .offloaded_activations = plan.activations.offloaded_bytes(plan.options),
          .temporary = temporary_bytes(plan.options),
          .process = plan.host.process_bytes,
          .program = plan.host.program_bytes};
}

double host_bytes(const RunPlan& plan) {
  return host_memory(plan, parts_of(plan.options.model, frozen_parameters(plan.options))).total();
}

}  // namespace trainer
