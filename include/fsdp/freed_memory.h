// Memory of tensors that a process on CPUs has freed.
#pragma once

namespace fsdp {

// From now on freed memory goes back to the system, but for a quarter of the most that was in use at once. Tensors of
// 1 MiB or more get an allocator of their own for this. Memory in use and kept memory together never exceed the most
// that was in use.
//
// This is for programs with little memory to spare, and for training from files: their cache needs free memory. `shard`
// with Options::offload_directory calls it. By default glibc keeps freed memory in a heap with gaps, which grows to 1.5
// times the peak of a step's activations. A Pipeline has glibc keep all of it, unless this was called before.
//
// For the whole process, and for good. Any thread. It does nothing if the program gave LibTorch an allocator for CPUs
// (c10::SetCPUAllocator).
void return_freed_memory();

}  // namespace fsdp
