// A plan in numbers, which fsdp-plan prints as text and as JSON.
#pragma once

#include <fsdp/plan.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "planning/plan_target.h"

namespace trainer {

// Bytes of the rank that holds most.
struct PlannedMemory {
  double parameters = 0, gradients = 0, optimizer = 0;
  double full_parameters = 0, full_gradients = 0;
  double activations = 0;  // at their peak
  double others = 0;       // temporary tensors beside them, an estimate
  double peak = 0;
  bool has_activations = true;  // otherwise they and the others are not known, and the peak is that of the state
};

// Bytes that this rank receives in a step.
struct PlannedCommunication {
  double within_hosts = 0, across_hosts = 0;
};

struct PlannedTime {
  double step = 0, compute = 0, exposed_communication = 0, idle = 0;  // seconds
};

struct PlanNumbers {
  int64_t parameters = 0;  // of the model
  PlannedMemory memory;
  PlannedCommunication communication;
  std::optional<PlannedTime> time = std::nullopt;   // none: no schedule of this engine is known for such a run
  bool fits = false;                                // in the memory of a device; on CPUs, in that of a host
  std::optional<double> host_bytes = std::nullopt;  // on CPUs: of all ranks of a host, and of their processes

  double bytes_per_parameter() const { return memory.peak / static_cast<double>(parameters); }
};

// Returns the memory of the rank that holds most.
PlannedMemory memory_of_largest_rank(const RunPlan& plan);
// A rank's, beside tensors of so many bytes.
PlannedMemory planned_memory(const fsdp::plan::StateMemory& state, double activations, double others);
// The memory alone, as plan_numbers has it.
PlannedMemory memory_of_plan(const PlanTarget& target, const RunOptions& options);
// PlanNumbers::fits of a plan with this memory.
bool plan_fits(const PlanTarget& target, const RunOptions& options, const PlannedMemory& memory);

// `options` are resolved. Throws fsdp::Error for a run that the engine cannot do.
PlanNumbers plan_numbers(const PlanTarget& target, const RunOptions& options);

// The object that fsdp-plan --json prints: parameters, memory, communication, time, fits. On CPUs the memory has
// `host`, too. Null where it is not known: time; of a list of parameters the memory's activations, others and peak, and
// fits unless it is false.
nlohmann::json plan_json(const PlanNumbers& numbers);

}  // namespace trainer
