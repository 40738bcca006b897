// The time of a planned step, by the simulation of its engine.
#pragma once

#include <optional>

#include "plan/engine_profile.h"
#include "plan/sharded_run.h"
#include "planning/plan_target.h"

namespace trainer {

// A run of an engine that divides the data, as the simulation takes it.
struct SimulatedRun {
  fsdp::plan::ShardedRun run;
  fsdp::plan::ShardedEngine engine;
};
// As planned_step. None for Megatron, too.
std::optional<SimulatedRun> simulated_run(const PlanTarget& target, const RunOptions& options);
// The step of such a run.
fsdp::plan::StepSeconds step_of(const SimulatedRun& simulated, const PlanTarget& target, const RunOptions& options);

// True if the order of the run's work is known in time. `options` are resolved.
bool has_schedule(const PlanTarget& target, const RunOptions& options);

// None for runs without a schedule.
std::optional<fsdp::plan::StepSeconds> planned_step(const PlanTarget& target, const RunOptions& options);

}  // namespace trainer
