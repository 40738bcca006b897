// Memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>

namespace trainer {

struct ProcessMemory {
  int64_t resident_bytes = 0;  // shared pages included
  int64_t shared_bytes = 0;  // of these, pages of files, which processes of one program have once, or of shared memory
  int64_t peak_bytes = 0;    // the most since the process began
};

ProcessMemory process_memory();

}  // namespace trainer
