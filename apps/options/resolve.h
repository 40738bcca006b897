// Checks options against each other, and derives what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// A sentence for each contradiction.
std::vector<std::string> contradictions(const Options& options);

// Facts that the command line does not know: ranks under a launcher, and the data.
struct Job {
  int64_t ranks = 1;
  std::optional<int64_t> windows = std::nullopt;  // of context + 1 tokens, to train on; none: not known yet
  bool is_known = false;                          // the job runs: `ranks` is their number, not what was asked for
};

// Fills in the number of ranks, the greatest where it is elastic, and what follows from it: micro-batches from
// --tokens-per-step, or from the step of the run that goes on; steps from --epochs and at most --steps, and what has no
// value in --warmup, --decay-steps and
// --muon-lr. With --epochs and unknown data, what follows from the steps stays as it is. May be called again when more
// is known. Returns what cannot be, a sentence each.
std::vector<std::string> resolve(Options& options, const Job& job);

// The windows of context + 1 tokens that so many tokens have, each beginning with the last token of the one before.
int64_t windows_in(int64_t tokens, int64_t context);

}  // namespace trainer
