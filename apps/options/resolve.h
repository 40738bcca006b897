// Checks options against each other, and derives what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// Facts that the command line does not know: ranks under a launcher, and the data.
struct Job {
  int64_t ranks = 1;
  std::optional<int64_t> windows = std::nullopt;  // of context + 1 tokens, to train on; none: not known yet
  bool is_known = false;                          // the job runs: `ranks` is their number, not what was asked for
  bool ranks_are_known = false;                   // no launcher will start another number of them
};

// Fills in the number of ranks (the greatest of an elastic run) and the options that follow from it:
// - the micro-batches, from --tokens-per-step, or from the step of the resumed run;
// - the steps, from --epochs and at most --steps;
// - --warmup, --decay-steps and --muon-lr, if they have no value, and --tensor-parts once the job runs.
// With --epochs and unknown data, the options that follow from the steps stay as they are. May be called again when
// more is known. Returns the contradictions, a sentence each.
std::vector<std::string> resolve(RunOptions& options, const Job& job);

// The windows of context + 1 tokens that so many tokens have, each beginning with the last token of the one before.
int64_t windows_in(int64_t tokens, int64_t context);

}  // namespace trainer
