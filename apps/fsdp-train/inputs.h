// What can be found wrong with a run's files before its ranks are started.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace trainer {

struct Inputs {
  std::string text;
  std::vector<std::string> problems;  // every one that was found, a sentence each
};

// Reads the text, and looks whether the checkpoint can be one and whether the run folder could be written. Writes
// nothing.
Inputs read_inputs(const Options& options);

}  // namespace trainer
