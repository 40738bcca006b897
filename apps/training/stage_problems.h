// The stages of a pipeline that the options ask for.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// A sentence for each thing that is wrong with the stages; none without a pipeline.
std::vector<std::string> stage_problems(const RunOptions& options);

}  // namespace trainer
