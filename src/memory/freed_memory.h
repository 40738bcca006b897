// Gives memory that this process frees back to the system.
#pragma once

namespace fsdp::memory {

// From now on large blocks go back to the system when they are freed, where they serve as cache for files. By itself
// glibc keeps them for later blocks, which do not quite fit into them: for activations it takes half as much again as
// they need at most, and has that all the time. Costs a fault for each page of a new block. For the whole process;
// nothing where the allocator is another one.
void return_freed_memory();

}  // namespace fsdp::memory
