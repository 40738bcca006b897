// The help of fsdp-plan, in lines of `width` columns.
#pragma once

#include <cstddef>
#include <string>

#include "fsdp-plan/commands.h"

namespace planner {

// The program's.
std::string help_text(size_t width);
// One command's.
std::string help_text(const Command& command, size_t width);

}  // namespace planner
