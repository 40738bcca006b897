// Options that make a run slow on this processor.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"
#include "run/processor.h"

namespace trainer {

// For ranks on CPUs, a sentence each. `ranks`: those on this host. `is_bound`: a launcher may have given each rank
// cores of its own, so that the usable ones are not all.
std::vector<std::string> slow_choices(const RunOptions& options, int64_t ranks, bool is_bound,
                                      const Processor& processor);

}  // namespace trainer
