// Defaults that a plan's figures rest on.
#pragma once

#include <string>

#include "options/command_line.h"

namespace trainer {

// A line for each option that was not given, its value, and the flag that sets another; empty where all were given, or
// are a run's own. Lines end with a newline and have at most 80 columns. `options` are those of `line`, resolved.
std::string assumed_text(const RunOptions& options, const CommandLine& line);

// The choice of --plan in such lines; empty without it.
std::string planned_text(const RunOptions& options);

}  // namespace trainer
