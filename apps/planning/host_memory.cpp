#include "planning/host_memory.h"

#include <algorithm>

#include "options/frozen.h"

namespace trainer {

namespace {

double element_bytes(const Options& options) { return options.param_dtype == "fp32" ? 4 : 2; }

double tokens_of_micro_batch(const Options& options) {
  return static_cast<double>(options.batch * options.model.context);
}

// Those that are there at a time, and become their own gradient.
double logits_bytes(const Options& options) {
  const double whole =
      element_bytes(options) * tokens_of_micro_batch(options) * static_cast<double>(options.model.vocabulary);
  return std::min(whole, kLogitsBytes);
}

// Forward keeps these until backward; what operators take for themselves comes on top.
double activation_bytes(const Options& options, const ModelParts& parts) {
  const double kept = static_cast<double>(parts.activation_numel) * element_bytes(options);
  return tokens_of_micro_batch(options) * kept + logits_bytes(options);
}

}  // namespace

double HostMemory::largest_rank() const {
  double most = 0;
  for (const MemoryPlan& plan : model) most = std::max(most, static_cast<double>(plan.total()));
  return most + activations + process + program;
}

double HostMemory::total() const {
  double sum = program;
  for (const MemoryPlan& plan : model) sum += static_cast<double>(plan.total()) + activations + process;
  return sum;
}

HostMemory host_memory(const RunPlan& plan, const ModelParts& parts) {
  return {.model = plan_memory(parts.units, planned_sharding(plan.options, plan.hosts)),
          .activations = activation_bytes(plan.options, parts),
          .process = plan.host.process_bytes,
          .program = plan.host.program_bytes};
}

double host_bytes(const RunPlan& plan) {
  return host_memory(plan, parts_of(plan.options.model, frozen_parameters(plan.options))).total();
}

}  // namespace trainer
