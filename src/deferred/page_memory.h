// Memory that goes back to the system when it is freed.
//
// Between the units of a deferred module small things are allocated that stay. LibTorch's allocator aligns malloc's
// memory, and requests a little more than it keeps. If a small block lies behind a freed block, the next one of that
// size does not fit into its place, and the process grows each time. Pages have no such holes.
#pragma once

#include <torch/types.h>

namespace fsdp::deferred {

// Bytes [bytes] on the device, not written yet. Throws Error where there is no memory.
torch::Tensor page_memory(int64_t bytes, torch::Device device);

}  // namespace fsdp::deferred
