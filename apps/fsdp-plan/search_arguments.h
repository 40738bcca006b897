// The words of fsdp-plan search, taken apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fsdp-plan/commands.h"
#include "fsdp-plan/plan_arguments.h"
#include "planning/plan_search.h"

namespace planner {

struct SearchArguments {
  PlanArguments plan;  // with the first number of ranks, and all problems
  trainer::SearchWish wish = {};
  std::optional<double> tokens = std::nullopt;  // of the run
};

std::vector<Switch> search_switches();

SearchArguments read_search(const std::vector<std::string>& words);

}  // namespace planner
