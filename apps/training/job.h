// A job from its first ranks to its last: failed ranks are started again according to the options.
#pragma once

#include <functional>
#include <string>

#include "options/options.h"
#include "training/job_memory.h"

// The header of World takes LibTorch's, and the program's main does without them.
namespace fsdp {
class World;
}

namespace trainer {

// A run that was stopped by SIGTERM or SIGUSR1, and saved, or had nothing to save yet: start it again as it was, later
// (sysexits.h, EX_TEMPFAIL).
inline constexpr int kGoOnLater = 75;

// Starts the ranks, each of which runs `rank` with the options of this attempt, and returns the exit code as `train`
// does.
int run_job(const RunOptions& given, JobMemory& job,
            const std::function<void(const RunOptions& options, fsdp::World& world)>& rank);

// For the record of ranks that were started again: how many there are, of how many.
std::string attempt_text(const RunOptions& options, int ranks, int64_t attempt);

}  // namespace trainer
