// The words of fsdp-plan scaling MODEL, taken apart.
#pragma once

#include <string>
#include <vector>

#include "fsdp-plan/commands.h"
#include "fsdp-plan/plan_arguments.h"
#include "planning/scaling_curves.h"

namespace planner {

struct ScalingArguments {
  PlanArguments plan;
  trainer::ScalingSettings settings = {};
  std::vector<std::string> strategies = {};  // that of --strategy, or all
  std::vector<std::string> problems = {};    // every one, a sentence each
};

std::vector<Switch> scaling_switches();

ScalingArguments read_scaling(const std::vector<std::string>& words);

}  // namespace planner
