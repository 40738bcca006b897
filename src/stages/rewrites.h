// Rewrites: each takes a schedule and returns another with the same work. All throw as `validate` does.
#pragma once

#include "stages/stage_schedule.h"

namespace fsdp::stages {

// An input gradient and the weight gradient right behind it become one whole backward, which costs less. The stage
// before then waits for both.
StageSchedule join_backwards(const StageSchedule& schedule);

// Adds a gather and a release to each stage, for stages whose parameters are shards: a stage stays full from its first
// pass that reads parameters to its last. The gather stands one pass ahead of its use, so that it runs beside that
// pass.
StageSchedule add_gathers(const StageSchedule& schedule);

// Adds sends and receives between stages on different ranks. A send stands behind its pass. Its receive stands where
// the receiving rank is at that moment of a run in which each rank in turn performs one action. So the order of sends
// and receives is one that can happen, and no rank waits for ever even if each send waits for its receive. Idle cells
// are left out.
//
// PyTorch's _add_send_recv has the same idea and the same order.
StageSchedule add_messages(const StageSchedule& schedule);

}  // namespace fsdp::stages
