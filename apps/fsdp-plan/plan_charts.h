// The charts of a plan's page.
#pragma once

#include <string>
#include <vector>

#include "fsdp-plan/plan_rows.h"

namespace planner {

// HTML: the memory of a rank by part, with the device's memory as a line.
std::string memory_chart(const PlanArguments& arguments, const std::vector<PlanRow>& rows);

// HTML: the bytes that a rank receives in a step, within and across hosts.
std::string communication_chart(const std::vector<PlanRow>& rows);

// HTML: the parts of a step's time. Rows without a time say so.
std::string time_chart(const PlanArguments& arguments, const std::vector<PlanRow>& rows);

// HTML: a label that says whether the plan fits.
std::string fit_label(const trainer::PlanNumbers& numbers);

}  // namespace planner
