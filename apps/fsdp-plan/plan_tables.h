// The tables of a plan's page: the numbers that --json prints.
#pragma once

#include <string>
#include <vector>

#include "fsdp-plan/plan_rows.h"

namespace planner {

enum class PlanTopic { Memory, Communication, Time };

// HTML: a row for each plan. Each number is an element `data`, whose value is that of --json.
std::string numbers_table(const std::vector<PlanRow>& rows, PlanTopic topic);

}  // namespace planner
