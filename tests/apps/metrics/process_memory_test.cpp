#include "metrics/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace trainer {
namespace {

TEST(ProcessMemory, CountsWhatIsTouchedAndRemembersThePeak) {
  constexpr int64_t kBytes = 64'000'000;
  const ProcessMemory before = process_memory();
  EXPECT_GT(before.resident_bytes, 0);
  EXPECT_GT(before.shared_bytes, 0);  // the program itself
  EXPECT_LT(before.shared_bytes, before.resident_bytes);
  // Straight from the kernel: an allocator may have as much left from before.
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  const int64_t with_it = process_memory().resident_bytes;
  munmap(memory, kBytes);
  EXPECT_GT(with_it, before.resident_bytes + kBytes / 2);
  EXPECT_GE(process_memory().peak_bytes, with_it - kBytes / 8);  // the kernel counts in batches of pages
}

}  // namespace
}  // namespace trainer
