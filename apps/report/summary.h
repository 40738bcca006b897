// The outcome of a run, in a few numbers.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

// An HTML table, one row per run.
std::string summary_table(const std::vector<RunFolder>& runs);

// The value in the middle of the finite ones, NaN where there is none.
double median(std::vector<double> values);

}  // namespace trainer
