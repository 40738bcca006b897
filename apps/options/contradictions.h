// Options of a run that cannot be together.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// A sentence for each contradiction.
std::vector<std::string> contradictions(const RunOptions& options);

}  // namespace trainer
