// Options in a TOML file (https://toml.io/en/v1.0.0): sections as in the table, keys as the flags without dashes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "options/option_table.h"

namespace trainer {

using Rows = std::set<const Row*>;

struct ConfigurationFile {
  Rows given;                         // set in it, rightly or not
  std::vector<std::string> problems;  // each with its file, line and column; or that it cannot be read
};

// Sets what the file at `path` says; values that are wrong change nothing.
ConfigurationFile read_configuration(const std::string& path, Options& options);

// The settings that reproduce the run: every option of `train` that is set, but for those that follow from others. A
// text that is not UTF-8, as TOML has to be, becomes a comment that says so.
std::string configuration_toml(const Options& options);

}  // namespace trainer
