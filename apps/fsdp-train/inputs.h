// What can be found wrong with a run's files before its ranks are started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace trainer {

struct Inputs {
  std::string text;
  std::optional<int64_t> windows;     // of context + 1 tokens, to train on; none: there is no text, or no window
  std::vector<std::string> problems;  // every one that was found, a sentence each
};

// For `train`: reads the text, and looks whether the checkpoint can be one and whether the run folder could be written.
// Writes nothing.
Inputs read_inputs(const Options& options);

// Whether the folder that --checkpoint or --resume names can be a checkpoint.
std::vector<std::string> checkpoint_problems(const Options& options);

}  // namespace trainer
