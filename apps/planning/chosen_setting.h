// The setting that `fsdp-train --plan` chooses for a run on the machine at hand. Pure.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"
#include "plan/hardware.h"
#include "planning/run_plan.h"

namespace trainer {

// The machine of --plan. `gpu`: the model of the GPUs at hand, such as "NVIDIA H200"; empty: the ranks compute on CPUs.
// auto is the built-in machine of this GPU, h100 for an unknown one, and cpu for CPUs. Throws fsdp::Error for a name
// that is no machine, and for a machine of the other kind of devices.
fsdp::plan::Hardware machine_for_plan(const std::string& plan, const std::string& gpu);

// A sentence if --plan names no machine that can be read.
std::vector<std::string> plan_problems(const RunOptions& options);

// The options that are not given, as in the fastest setting that fits into `here`. The step keeps its tokens; with
// --ignore-memory every setting fits. The options of `here` are resolved, but for the tensor parts. Throws fsdp::Error
// if no setting fits, with the smallest one, its bytes and remedies, and for a run whose time is not simulated.
PlannedOptions chosen_setting(const fsdp::plan::Hardware& machine, const RunPlan& here);

}  // namespace trainer
