// All that fsdp-plan does.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace planner {

// Runs the program with these arguments and returns its exit code. Texts have lines of `width` columns.
int plan_command(const std::vector<std::string>& words, size_t width);

}  // namespace planner
