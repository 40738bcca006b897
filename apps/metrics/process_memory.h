// Memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>

namespace trainer {

struct ProcessMemory {
  int64_t resident_bytes = 0;  // shared pages included
  int64_t peak_bytes = 0;      // the most since the process began
};

ProcessMemory process_memory();

}  // namespace trainer
