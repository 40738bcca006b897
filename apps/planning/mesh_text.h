// The part of --dry-run about a mesh of ranks. Lines end with a newline and have at most 80 columns.
#pragma once

#include <string>

#include "planning/run_plan.h"

namespace trainer {

// The axes, the hosts of their ranks, the stages and their idle time.
std::string mesh_overview(const RunPlan& plan);

// The memory of a rank of each stage.
std::string mesh_memory_text(const RunPlan& plan);

// The bytes that a rank of each stage receives in a step.
std::string mesh_traffic_text(const RunPlan& plan);

}  // namespace trainer
