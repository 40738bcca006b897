// The memory and the processors that this host has for a run, as the kernel reports them.
#pragma once

#include <fsdp/world.h>

#include <optional>

#include "planning/run_plan.h"

namespace trainer {

// Free memory on this host, measured before the run takes any.
struct FreeMemory {
  std::optional<double> host = std::nullopt;  // bytes for all ranks together; none: not known
  std::optional<double> rank = std::nullopt;  // bytes for each, by its own limits (ulimit -v, -d); none: no limit
};
FreeMemory free_memory();

// For a run on a mesh: a world of this rank alone, in which its blocks are measured. A collective.
std::optional<fsdp::World> world_of_blocks(const fsdp::World& world, const RunOptions& options);

// A plan of the run for this host, with its memory and the activations of its model, in a rank of the job: `options`
// are resolved for it. The memory of ranks on GPUs is that of the GPUs. `alone`: of world_of_blocks.
RunPlan plan_here(fsdp::World& world, const RunOptions& options, const FreeMemory& free,
                  const std::optional<fsdp::World>& alone = std::nullopt);

}  // namespace trainer
