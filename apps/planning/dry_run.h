// The text of --dry-run, and the part of it that other commands tell.
#pragma once

#include <string>

#include "planning/run_plan.h"

namespace trainer {

// The model's parameters by part, the memory that each rank will hold, whether that fits and what else would, and what
// a step and the run come to; lines that end with a newline.
std::string dry_run_text(const RunPlan& plan);

// The memory of each rank and of the host, by part, alone.
std::string memory_table(const RunPlan& plan);

}  // namespace trainer
