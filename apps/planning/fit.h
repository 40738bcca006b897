// Whether a run fits into its host, and what else would.
#pragma once

#include <string>

#include "planning/run_plan.h"

namespace trainer {

// Whether the plan asks for more memory than there is. False where that is not known.
bool exceeds_memory(const RunPlan& plan);

// Lines that end with a newline, of at most 80 columns.
std::string fit_text(const RunPlan& plan);

}  // namespace trainer
