// Keeps the memory of tensors that this process has freed. return_freed_memory (fsdp/freed_memory.h) does not.
#pragma once

namespace fsdp::memory {

// From now on glibc keeps freed memory for the next tensors, but for blocks of more than 32 MiB. By default it gives
// memory back whenever the end of its heap is free. This is so after each step of a pipeline, and the next step has
// page faults. The most that the process takes stays about the same. For the whole process. It does nothing after
// return_freed_memory, or if LibTorch has another allocator for CPUs.
void keep_freed_memory();

}  // namespace fsdp::memory
