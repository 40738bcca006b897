// A training run from its first rank to its last.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "options/options.h"

namespace trainer {

// Starts the ranks, trains, and returns the exit code. It is 0, or 2 if an input file or the run folder cannot be used.
// After SIGTERM or SIGUSR1 it is kGoOnLater (job.h), after another signal 128 + signal, otherwise the failed rank's.
// Call it before anything uses LibTorch: it forks. `problems`, of a rank that a launcher started, are told by one rank,
// and nothing begins; the corpus may be empty then.
int train(const RunOptions& options, const data::Corpus& corpus, const std::vector<std::string>& problems = {});

}  // namespace trainer
