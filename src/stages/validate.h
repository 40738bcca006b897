// Checks a schedule before it runs.
#pragma once

#include "stages/stage_schedule.h"

namespace fsdp::stages {

// Throws Error unless all of this holds. The message names rank, position and action, and draws the grid around them.
//
// - Each stage lies on one rank. It runs each micro-batch once: a forward, then a backward, either whole or as input
//   gradient and, later, weight gradient.
// - Gradients of a stage's weights come in micro-batch order, because they are added in this order.
// - With messages: each result for a stage of another rank is sent after its pass, and received before its use. Between
//   two ranks, receives have the order of the sends.
// - With gathers: a stage is full whenever a pass reads its parameters, and no longer at the end. With reductions: each
//   stage has one, after its last gradients.
// - Every rank reaches its end, also if each send waits for its receive.
void validate(const StageSchedule& schedule);

}  // namespace fsdp::stages
