// `fsdp-train --dry-run`.
#pragma once

#include <optional>

#include "options/command_line.h"

namespace trainer {

// Compares the run with this machine, whose peak ranks measure together, and prints it all. `options` are those of
// `line`, resolved by the ranks that it asks for; under a launcher its ranks count, and the first one speaks.
// `windows`: those of the training data, where it is known. Returns the exit code.
int dry_run_command(const CommandLine& line, const RunOptions& options, std::optional<int64_t> windows);

}  // namespace trainer
