// The activations of the blocks of a mesh's runs, from tiny ones.
#pragma once

#include <fsdp/world.h>

#include "planning/planned_blocks.h"

namespace trainer {

// A tiny model is made, and one of its blocks run, when the first block of its kind is asked about. `alone` is a world
// of one rank, in which a tiny model has the layers of a divided one. LibTorch's default generator is left as it was.
PlannedBlocks measured_blocks(const fsdp::World& alone);

}  // namespace trainer
