#include "metrics/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace trainer {
namespace {

TEST(ProcessMemory, CountsWhatIsTouchedAndRemembersThePeak) {
  constexpr int64_t kBytes = 64'000'000;
  const ProcessMemory before = process_memory();
  EXPECT_GT(before.resident_bytes, 0);
  // Pages of its own: an allocator may have some that are resident already.
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* bytes = static_cast<volatile char*>(memory);  // lest the compiler do without
  for (int64_t i = 0; i < kBytes; i += 1024) bytes[i] = 1;
  const int64_t with_it = process_memory().resident_bytes;
  munmap(memory, kBytes);
  EXPECT_GT(with_it, before.resident_bytes + kBytes / 2);
  EXPECT_GE(process_memory().peak_bytes, with_it - kBytes / 8);  // the kernel counts in batches of pages
}

}  // namespace
}  // namespace trainer
