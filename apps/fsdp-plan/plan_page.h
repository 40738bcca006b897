// A plan, or several beside each other, as one HTML page that needs nothing but itself: fsdp-plan ... --html FILE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fsdp-plan/plan_rows.h"
#include "planning/plan_limits.h"

namespace planner {

struct PlanPage {
  std::string kind = {};           // text: "Plan of gpt2-xl"
  std::string strategy = {};       // text: "full-shard", "6 strategies"
  std::vector<PlanRow> rows = {};  // in the charts and tables; at least one
  std::string words = {};          // HTML, before the charts
  std::optional<trainer::PlanLimits> limits = std::nullopt;
  std::string json = {};  // that --json prints
};

std::string plan_page(const PlanArguments& arguments, const PlanPage& page);

}  // namespace planner
