// How a run stands: it trains, it has ended in some way, or it was killed.
#pragma once

#include <string>

#include "report/run.h"

namespace trainer {

// From the last process's record of its end; without one, from the run's lock. For an older run without such records,
// only "all steps are done" is known.
RunStatus status_of(const RunFolder& run, bool is_locked);

// "running", "finished", "stopped", "failed", "broken off"; empty where it is not known.
std::string word_of(RunStatus status);

// A label in HTML; empty where the status is not known.
std::string status_label(RunStatus status);

}  // namespace trainer
