// Decides if a job restarts after ranks failed, and with how many. Pure.
#pragma once

#include <cstdint>

#include "options/options.h"

namespace trainer {

// How often a job was started again in all, also by launches before the present one, and what it lost.
struct Failed {
  int64_t ranks = 1;     // that it had
  int64_t lost = 1;      // of these, that failed by themselves
  int64_t restarts = 0;  // so far
};

// The number of ranks to go on with; 0: the job ends. With --elastic the remaining ranks, within its range.
int64_t ranks_after(const Failed& failed, const RunOptions& options);

}  // namespace trainer
