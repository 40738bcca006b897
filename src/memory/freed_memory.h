// Gives memory that this process frees back to the system.
#pragma once

namespace fsdp::memory {

// From now on most of the memory of large tensors goes back to the system when they are freed, where it serves as cache
// for files; some of it is kept for the next tensors (kept_blocks.h). By itself glibc keeps all of it for later blocks,
// which do not quite fit: for activations it takes half as much again as they need at most, and has that all the time.
// For the whole process, and tensors on the CPU. Nothing where it has a CPU allocator of its own already.
void return_freed_memory();

}  // namespace fsdp::memory
