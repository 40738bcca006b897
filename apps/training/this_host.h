// The memory and the processors that this host has for a run, as the kernel reports them.
#pragma once

#include <fsdp/world.h>

#include <optional>
#include <string>

#include "planning/run_plan.h"

namespace trainer {

// Free memory on this host, measured before the run takes any.
struct FreeMemory {
  std::optional<double> host = std::nullopt;  // bytes for all ranks together; none: not known
  std::optional<double> rank = std::nullopt;  // bytes for each, by its own limits (ulimit -v, -d); none: no limit
};
FreeMemory free_memory();

// A plan of the run for this host, with its memory, in a rank of the job: `options` are resolved for it. The memory of
// ranks on GPUs is that of the GPUs.
RunPlan plan_here(fsdp::World& world, const RunOptions& options, const FreeMemory& free);

// The model of the GPUs that the ranks compute on, as the driver names it; "GPU" if it does not. Empty on CPUs.
std::string gpu_here(const fsdp::World& world);

}  // namespace trainer
