// fsdp-plan search MODEL: the best setting of a training.
#pragma once

#include <string>
#include <vector>

#include "fsdp-plan/model_plan.h"

namespace planner {

// The words of fsdp-plan MODEL.
ModelPlan search_plan(const std::vector<std::string>& words, size_t width);

// fsdp-plan compare MODEL: strategies, and numbers of ranks that share the state, beside each other.
ModelPlan compare_plans(const std::vector<std::string>& words, size_t width);

}  // namespace planner
