#include "memory/freed_memory.h"

#include <malloc.h>

namespace fsdp::memory {

void return_freed_memory() {
  constexpr int kBytes = 4 << 20;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  malloc_trim(0);
}

}  // namespace fsdp::memory
