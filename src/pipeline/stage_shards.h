// The units that hold the parameters of a sharded stage, gathered and released together by actions of the schedule.
#pragma once

#include "pipeline/stage_blocks.h"

namespace fsdp::pipeline {

// The units of this stage, which is on this rank, stay full until `release_stage`. Their gathers begin now, and the
// first operators that use them wait. A unit that also holds parameters of another stage stays as long as either needs
// it.
void gather_stage(const StageBlocks& blocks, const StageLayout& layout, int stage);
void release_stage(const StageBlocks& blocks, const StageLayout& layout, int stage);

}  // namespace fsdp::pipeline
