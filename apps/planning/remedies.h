// Changes of a run that let it take less memory.
#pragma once

#include <string>
#include <vector>

#include "planning/run_plan.h"

namespace trainer {

struct Remedy {
  std::string change;  // "--batch 1 --micro-batches 8", "2 hosts of 8 ranks each"
  double bytes = 0;    // that the ranks of a host then take, by the plan's arithmetic
};

// Single changes that save memory. Changes without effect on results come first, changes of the learned model last.
// Each goes as far as needed for the ranks of a host to take at most `available` bytes, or as far as possible. Where
// none of them is enough, the last is as many of them together as are needed, or all.
std::vector<Remedy> remedies(const RunPlan& plan, double available);

}  // namespace trainer
