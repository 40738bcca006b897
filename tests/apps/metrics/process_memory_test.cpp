#include "metrics/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainer {
namespace {

TEST(ProcessMemory, CountsWhatIsTouchedAndRemembersThePeak) {
  constexpr int64_t kBytes = 64'000'000;
  const ProcessMemory before = process_memory();
  EXPECT_GT(before.resident_bytes, 0);
  int64_t with_it = 0;
  {
    std::vector<char> memory(static_cast<size_t>(kBytes));
    volatile char* bytes = memory.data();  // lest the compiler do without
    for (int64_t i = 0; i < kBytes; i += 1024) bytes[i] = 1;
    with_it = process_memory().resident_bytes;
  }
  EXPECT_GT(with_it, before.resident_bytes + kBytes / 2);
  EXPECT_GE(process_memory().peak_bytes, with_it - kBytes / 8);  // the kernel counts in batches of pages
}

}  // namespace
}  // namespace trainer
