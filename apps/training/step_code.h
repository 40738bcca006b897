// The code of a step in memory, so that a process can be measured as it will be in a run.
#pragma once

#include "options/options.h"

namespace trainer {

// Runs a step of a tiny model of the run's kind on the CPU, in milliseconds. LibTorch's default generator is left as it
// was. `options` are resolved.
void load_code_of_steps(const RunOptions& options);

}  // namespace trainer
