#include "memory/freed_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include "memory/kept_blocks.h"

namespace fsdp::memory {

namespace {

constexpr size_t kLarge = 1 << 20;  // smaller blocks are glibc's

KeptBlocks& blocks() {
  static auto* const blocks = new KeptBlocks;
  return *blocks;
}

// Called for blocks of the default allocator, too: an allocator has one deleter for all.
void free_memory(void* memory) {
  if (!blocks().has(memory)) return c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  c10::profiledCPUMemoryReporter().Delete(memory);
  blocks().give_back(memory);
}

class ReturningAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = bytes < kLarge ? nullptr : blocks().take(bytes);
    if (memory == nullptr) {  // the default one throws with a message
      memory = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    } else {
      c10::profiledCPUMemoryReporter().New(memory, bytes);
    }
    return {memory, memory, &free_memory, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void return_freed_memory() {
  if (c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) return;
  c10::SetCPUAllocator(new ReturningAllocator);  // for good: tensors outlive static objects
  constexpr int kBytes = 4 << 20;                // of other memory than tensors'
  mallopt(M_MMAP_THRESHOLD, kBytes);
  malloc_trim(0);
}

}  // namespace fsdp::memory
