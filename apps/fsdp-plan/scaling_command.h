// fsdp-plan scaling MODEL: the rate of a rank by the number of ranks, and by the size of the hosts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fsdp-plan/model_plan.h"

namespace planner {

ModelPlan scaling_plan(const std::vector<std::string>& words, size_t width);

}  // namespace planner
