// The number of threads of a run that goes on: with another number some kernels add up in another order.
#pragma once

#include <cstdint>

#include "options/options.h"

namespace trainer {

// Threads per rank that the run in `options.run` was trained with, by its config.json, where it is to go on with as
// many ranks as before. 0: it begins anew, has other ranks, or does not say; or OMP_NUM_THREADS does.
int64_t threads_before(const RunOptions& options);

}  // namespace trainer
