// The options that --plan chooses, as flags.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// A sentence for each option that cannot be with --plan.
std::vector<std::string> plan_contradictions(const RunOptions& options);

// "--strategy full-shard --batch 2" without the flags that are given (RunOptions::chosen).
std::string free_flags(const std::string& flags, const RunOptions& options);

// The options with the values of these flags, which count as given from then on: they are saved with the run. Micro-
// batches replace --tokens-per-step. Throws fsdp::Error for a value that its option does not take.
RunOptions with_flags(const RunOptions& options, const std::string& flags);

// The flags of a plan in RUN/config.toml that are not given now; empty: there are none, or no such file. Throws
// fsdp::Error for a file that cannot be read.
std::string recorded_flags(const RunOptions& options);

}  // namespace trainer
