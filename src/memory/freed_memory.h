// Gives memory that this process frees back to the system.
#pragma once

namespace fsdp::memory {

// From now on most of the memory of large tensors goes back to the system when they are freed, where it serves as cache
// for files; some of it is kept for the next tensors (kept_blocks.h). By itself glibc keeps all freed memory, and as
// the blocks of a step rarely have the same size as those before, its heap grows to half as much again as activations
// need at most, and does not shrink. For the whole process, and tensors on the CPU. Nothing where it has a CPU
// allocator of its own already.
void return_freed_memory();

}  // namespace fsdp::memory
