// How long a run may take.
#pragma once

#include <string>

#include "planning/run_plan.h"

namespace trainer {

// The share of their peak that ranks are expected to reach in a step (MFU): more with wide layers, and less with narrow
// ones.
inline constexpr double kExpectedMfu = 0.5;

// The operations of all ranks.
double flops_of_step(const RunOptions& options);

// At the expected share of so many operations per second and rank.
double step_seconds(const RunOptions& options, double peak_flops);

// From measured passes. Communication is assumed to hide behind them.
double step_seconds(const RunOptions& options, const PassTimes& passes);

// The share of a step in which ranks of a pipeline wait for others; 0 without one.
double idle_share_of(const RunOptions& options);

// The time of a step and of the run, and the assumption behind it; empty if neither passes nor the peak are known. The
// lines end with a newline and have at most 80 columns.
std::string time_text(const RunPlan& plan);

// True if the number of steps is known: it is not for epochs of data that is not.
bool knows_steps(const RunPlan& plan);

}  // namespace trainer
