// The memory that a memory file takes.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>

#include "memory/memory_file.h"
#include "memory/pages.h"

namespace fsdp::testing {

// In pages: those that were granted or written, whatever the file's size.
inline int64_t pages_of(const memory::MemoryFile& file) {
  struct stat status {};
  EXPECT_EQ(fstat(file.descriptor(), &status), 0);
  return status.st_blocks * 512 / static_cast<int64_t>(memory::kPageBytes);
}

}  // namespace fsdp::testing
