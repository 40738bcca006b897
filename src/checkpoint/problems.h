// Many problems in one message.
#pragma once

#include <string>
#include <vector>

namespace fsdp::checkpoint {

// Throws Error, if there are problems: `what`, the problems, and `advice`. Several problems have a line each; of many,
// the first ones are shown.
void throw_if_any(const std::vector<std::string>& problems, const std::string& what, const std::string& advice);

}  // namespace fsdp::checkpoint
