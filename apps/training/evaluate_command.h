// fsdp-train --eval-only: the loss and the perplexity of weights that were trained before.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "options/options.h"

namespace trainer {

// Starts the ranks, loads the weights of --checkpoint or --init-from, evaluates them on the validation data, which has
// to be there, prints the result, and returns the exit code as `train` does. Writes nothing. Call it before anything
// uses LibTorch: it forks. `problems` as for `train`.
int evaluate_command(const Options& options, const data::Corpus& corpus, const std::vector<std::string>& problems = {});

}  // namespace trainer
