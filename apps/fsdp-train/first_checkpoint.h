// Which weights of a run --init-from is about.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// If --init-from names a run, it becomes the run's newest checkpoint whose files are there. If --tokenizer is a run
// with bytes as tokens, it becomes "bytes". Returns what is wrong, a sentence each. Reads files, and writes nothing.
std::vector<std::string> choose_first_checkpoint(RunOptions& options);

}  // namespace trainer
