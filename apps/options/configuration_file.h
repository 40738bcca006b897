// Options in a TOML file (https://toml.io/en/v1.0.0): sections as in the table, keys as the flags without dashes.
// Before the sections may stand paths_relative_to = "file" (option_paths.h).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "options/option_table.h"

namespace trainer {

using Rows = std::set<const Row*>;

struct ConfigurationFile {
  Rows given;                         // set in it, rightly or not
  Rows relative;                      // those of them whose path is relative there
  std::string paths;                  // the folder that these are relative to
  std::vector<std::string> problems;  // each with its file, line and column; or that it cannot be read
};

// Sets what the file at `path` says, with paths as they are from the working folder; values that are wrong change
// nothing.
ConfigurationFile read_configuration(const std::string& path, AllOptions& options);

// RUN/config.toml, with which the run in `options.run` can be made again: what was chosen for it, and as comments what
// was not, with the values that it had. Paths that were chosen as relative ones are relative to the run's folder, so
// that both may be moved together. A text that is not UTF-8, as TOML has to be, becomes a comment that says so.
std::string configuration_toml(const RunOptions& options);

}  // namespace trainer
