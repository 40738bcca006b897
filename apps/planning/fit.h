// Checks if a run fits into its host, and finds changes that make it fit.
#pragma once

#include <string>

#include "planning/run_plan.h"

namespace trainer {

// Where it is not known how much memory there is, every plan fits.
enum class Fit {
  kWell,
  kBarely,  // the host has less than a quarter more than the plan asks for
  kNot,
};

Fit fit(const RunPlan& plan);
// True if there is room on the disk for what lies in files.
bool fits_on_disk(const RunPlan& plan);

// Lines that end with a newline, of at most 80 columns.
std::string fit_text(const RunPlan& plan);

}  // namespace trainer
