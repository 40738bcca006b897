// Memory that goes back to the system when it is freed.
//
// Between the units of a deferred module small things are allocated that stay. LibTorch's allocator aligns what it
// gets from malloc, and asks for a little more than it keeps: where something small lies behind a block that was freed,
// the next block of that size does not fit into its place, and the process grows by each. Pages have no such holes.
#pragma once

#include <torch/types.h>

namespace fsdp::deferred {

// Bytes [bytes] on the device, not written yet. Throws Error where there is no memory.
torch::Tensor page_memory(int64_t bytes, torch::Device device);

}  // namespace fsdp::deferred
