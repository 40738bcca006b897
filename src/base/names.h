// Name patterns as users write them for parameters and modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// True if `name` matches `pattern` as a whole: * stands for any characters, dots included, and ? for one.
bool matches(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace fsdp
