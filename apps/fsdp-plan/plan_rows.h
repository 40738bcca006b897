// Plans beside each other, a line each.
#pragma once

#include <string>
#include <vector>

#include "fsdp-plan/model_plan.h"
#include "fsdp-plan/plan_arguments.h"
#include "planning/plan_numbers.h"

namespace planner {

struct PlanRow {
  std::string name;  // "full-shard"
  trainer::PlanNumbers numbers;
};

// A row for each strategy.
std::vector<PlanRow> strategy_rows(const PlanArguments& arguments);
std::string rows_text(const PlanArguments& arguments, const std::vector<PlanRow>& rows);
// An object with a plan for each name.
std::string rows_json(const std::vector<PlanRow>& rows);

// The rows as text or JSON, and as a page if one is asked for.
ModelPlan compared(const PlanArguments& arguments, const std::vector<PlanRow>& rows);

// "64 ranks on 8 hosts of h100", "64 or 128 ranks of h100"
std::string ranks_text(const PlanArguments& arguments);
// Two lines: the model, and the ranks.
std::string heading(const PlanArguments& arguments);
// "61.2 ms", "7.54 s", "75.4 s"
std::string seconds_text(double seconds);

}  // namespace planner
