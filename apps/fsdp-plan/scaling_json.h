// The object that fsdp-plan scaling --json prints.
#pragma once

#include <nlohmann/json.hpp>

#include <vector>

#include "fsdp-plan/scaling_arguments.h"

namespace planner {

nlohmann::json scaling_json(const ScalingArguments& arguments, const std::vector<trainer::ScalingCurve>& by_ranks,
                            const std::vector<trainer::ScalingCurve>& by_hosts);

}  // namespace planner
