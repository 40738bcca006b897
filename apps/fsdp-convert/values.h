// The values that options of fsdp-convert may have.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace converter {

// The dtypes of --dtype, by their words.
const std::map<std::string, torch::ScalarType>& dtypes();
std::vector<std::string> dtype_words();

// The values of --from and --to.
std::vector<std::string> format_words();

}  // namespace converter
