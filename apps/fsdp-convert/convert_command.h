// All that fsdp-convert does.
#pragma once

#include <string>
#include <vector>

namespace converter {

// Runs the program with these arguments and returns its exit code. `width` is that of the help.
int convert_command(const std::vector<std::string>& words, int width);

}  // namespace converter
