// fsdp-train --eval-only: the loss and the perplexity of weights that were trained before.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "options/options.h"
#include "run/newest_checkpoint.h"

namespace trainer {

// Starts the ranks, loads the weights of `checkpoint`, or of --init-from if that is empty, and evaluates them on the
// validation data, which must exist. Prints the result, and returns the exit code as `train` does. A loss that is not
// finite is an error. Writes nothing. Call it before anything uses LibTorch: it forks. `problems` as for `train`.
int evaluate_command(const RunOptions& options, const data::Corpus& corpus, const NewestCheckpoint& checkpoint,
                     const std::vector<std::string>& problems = {});

}  // namespace trainer
