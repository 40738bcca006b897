// The calls of a World on whole tensors, as compare/peer/world_calls.py has them of PyTorch.
#pragma once

#include <fsdp/fsdp.h>

#include "conversation.h"

namespace contestant {

// "call: broadcast", and so on. Each answers when its repetitions began and ended, in seconds of the machine's steady
// clock, and the sum of this rank's result. `world` outlives them.
Deeds world_calls(fsdp::World& world);

}  // namespace contestant
