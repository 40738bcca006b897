// The record with which a process begins to train.
#pragma once

#include <fsdp/world.h>

#include "metrics/process_record.h"
#include "options/options.h"

namespace trainer {

// The start of this process, which continues after `steps_done` steps.
ProcessStart process_start(const fsdp::World& world, const RunOptions& options, int64_t steps_done);

}  // namespace trainer
