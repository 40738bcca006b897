// The configuration of runs, in the groups of the help.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

struct KnownOption {
  std::string name;           // as in config.json
  std::string default_value;  // as RunFolder::configuration has it
};

struct OptionGroup {
  std::string title;
  std::vector<KnownOption> options;
};

// HTML: a table per group, in which rows have the class "differs" where runs differ, "unset" where no run has a value,
// and "default" where all have the option's own default. Names of no group come last. Empty where there is nothing to
// show.
std::string configuration_section(const std::vector<RunFolder>& runs, const std::vector<OptionGroup>& groups);

}  // namespace trainer
