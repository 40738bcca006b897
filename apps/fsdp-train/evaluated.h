// Which weights --eval-only is about, and how they are divided.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"
#include "run/newest_checkpoint.h"

namespace trainer {

struct Evaluated {
  NewestCheckpoint checkpoint = {};        // or the one that is named; empty: weights from elsewhere
  std::vector<std::string> problems = {};  // a sentence each
};

// Fills in what the weights decide: with neither --checkpoint nor --init-from the newest checkpoint of --run, or of the
// run that --checkpoint names; how it is divided among the ranks; and the tokenizer of its run.
// Reads files, and writes nothing.
Evaluated choose_evaluated(Options& options);

}  // namespace trainer
