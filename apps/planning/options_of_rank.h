// One rank of a mesh as a run of its own: tensor parallelism gives it a narrower model. Pure.
#pragma once

#include "options/options.h"

namespace trainer {

// The run whose activations a tensor rank has, between its divided layers: its heads, its part of the MLP and, of the
// first rank, which has the largest, of the vocabulary. The width of the model stays. The ranks are those of the data
// axis.
RunOptions options_of_rank(const RunOptions& options);

}  // namespace trainer
