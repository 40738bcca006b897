// Which weights --eval-only is about, and how they are divided.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// Fills in what the weights decide: with neither --checkpoint nor --init-from the newest checkpoint of --run, or of the
// run that --checkpoint names; how it is divided among the ranks; and the tokenizer of its run.
// Returns what cannot be, a sentence each. Reads files, and writes nothing.
std::vector<std::string> choose_evaluated(Options& options);

}  // namespace trainer
