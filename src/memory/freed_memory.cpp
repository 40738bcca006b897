#include "memory/freed_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include "fsdp/freed_memory.h"
#include "memory/kept_blocks.h"

namespace fsdp {

namespace {

constexpr size_t kLarge = 1 << 20;  // smaller blocks are glibc's

memory::KeptBlocks& blocks() {
  static auto* const blocks = new memory::KeptBlocks;
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

bool has_default_allocator() { return c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator(); }

}  // namespace

void memory::keep_freed_memory() {
  if (!has_default_allocator()) return;
  constexpr int kMost = 32 << 20, kNever = -1;  // glibc takes no more (mallopt(3))
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, kNever);
}

void return_freed_memory() {
  if (!has_default_allocator()) return;
  c10::SetCPUAllocator(new ReturningAllocator);              // for good: tensors outlive static objects
  constexpr int kLargest = 4 << 20, kUnusedEnd = 128 << 10;  // of the heap for other memory than tensors'
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, kUnusedEnd);
  malloc_trim(0);
}

}  // namespace fsdp
