// The plan of a run that is profiled.
#pragma once

#include <fsdp/world.h>

#include <optional>

#include "options/options.h"
#include "report/profile.h"

namespace trainer {

// The memory that the plan gives the rank that holds most, with --profile and on rank 0; none elsewhere. Draws random
// numbers, and so comes before the run's own. A collective.
std::optional<ProfilePlan> profile_plan(fsdp::World& world, const RunOptions& options);

// The plan with the time of a step. `flops`: operations per second that all ranks reach in products of matrices.
ProfilePlan with_time(ProfilePlan plan, const RunOptions& options, double flops);

}  // namespace trainer
