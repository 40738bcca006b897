// `fsdp-train --plan` in the ranks of a job: the choice of its options.
#pragma once

#include <fsdp/world.h>

#include <cstdint>

#include "options/options.h"
#include "options/resolve.h"
#include "training/this_host.h"

namespace trainer {

// With --plan, sets the options that are not given, alike on every rank, and describes the choice in
// RunOptions::planned. Rank 0 chooses for the GPU with the least free memory, or for its host. A run that goes on, also
// in a job that started its ranks again (`attempt` above 0), keeps the choice that RUN/config.toml records. On other
// ranks than before its micro-batches are as many as the step has. `options` are not resolved yet, and stay as they are
// if they cannot be. Throws AgreedError as chosen_setting and recorded_flags do. A
// collective.
void plan_options(RunOptions& options, const Job& job, fsdp::World& world, const FreeMemory& free, int64_t attempt);

}  // namespace trainer
