// The outcome of a run, in a few numbers.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

// HTML: a tile per number for one run; a table for several, one row per run.
std::string summary_of(const std::vector<RunFolder>& runs);

// The value in the middle of the finite ones, NaN where there is none.
double median(std::vector<double> values);

}  // namespace trainer
