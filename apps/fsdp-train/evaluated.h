// Which weights --eval-only is about, and how they are divided.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"
#include "run/newest_checkpoint.h"

namespace trainer {

struct Evaluated {
  NewestCheckpoint checkpoint = {};        // or the named one; empty: weights from elsewhere
  std::vector<std::string> problems = {};  // a sentence each
};

// Fills in the options that follow from the weights: the checkpoint, its division among the ranks, and the tokenizer of
// its run. With neither --checkpoint nor --init-from it is the newest checkpoint of --run, or of the run that
// --checkpoint names. Reads files, and writes nothing.
Evaluated choose_evaluated(RunOptions& options);

}  // namespace trainer
