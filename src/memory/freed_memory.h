// Gives memory that this process frees back to the system.
#pragma once

namespace fsdp::memory {

// From now on most memory of large freed tensors goes back to the system, where it serves as cache for files. Some of
// it is kept for the next tensors (kept_blocks.h). By itself glibc keeps all freed memory. The
// blocks of a step rarely have the sizes of earlier ones, so its heap grows to 1.5 times the peak of activations, and
// does not shrink. For the whole process, and tensors on the CPU. Nothing where it has a CPU allocator of its own
// already.
void return_freed_memory();

}  // namespace fsdp::memory
