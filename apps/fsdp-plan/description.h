// The description of fsdp-plan, for its help, its manual page and the completions of its command line.
#pragma once

#include "manual/program.h"

namespace planner {

const trainer::Program& program();

}  // namespace planner
