// `fsdp-train report`.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// The problems that keep the report from being written at all, a sentence each.
std::vector<std::string> report_problems(const ReportOptions& options);

// Writes the page, once or, with --watch, as long as a run goes on. Returns the exit code: 128 + a signal that ended
// the watch. Throws fsdp::Error where a run cannot be read or the page cannot be written.
int run_report(const ReportOptions& options);

}  // namespace trainer
