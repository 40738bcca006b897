// Memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace trainer {

struct ProcessMemory {
  int64_t resident_bytes = 0;  // shared pages included
  int64_t shared_bytes = 0;  // of these, pages of files, which processes of one program have once, or of shared memory
  int64_t peak_bytes = 0;    // the most since the process began
};

ProcessMemory process_memory();

// Bytes that the process may still have by its own limits: of its address space (ulimit -v) and of its data (ulimit
// -d). None: they are not limited.
std::optional<int64_t> process_room();

}  // namespace trainer
