// How a run divides its model, as plans take it.
#pragma once

#include <fsdp/plan.h>

#include <cstdint>

#include "options/options.h"

namespace trainer {

// The ranks hold the model, or the same stage and parts of it, and lie on so many hosts.
fsdp::plan::Sharding planned_sharding(const RunOptions& options, int64_t hosts = 1, bool on_gpus = false);

}  // namespace trainer
