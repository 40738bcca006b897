#include "memory/heap.h"

#include <gtest/gtest.h>

namespace fsdp::memory {
namespace {

TEST(Heap, HandsOutRangesThatDoNotMeetAndJoinsWhatComesBack) {
  Heap heap(kPageBytes, 5 * kPageBytes);
  EXPECT_EQ(heap.take(1), kPageBytes);
  EXPECT_EQ(heap.take(kPageBytes + 1), 2 * kPageBytes);
  EXPECT_EQ(heap.take(kPageBytes), 4 * kPageBytes);
  EXPECT_EQ(heap.take(1), std::nullopt);
  EXPECT_EQ(heap.give_back(kPageBytes), kPageBytes);
  EXPECT_EQ(heap.take(2 * kPageBytes), std::nullopt);
  EXPECT_EQ(heap.give_back(4 * kPageBytes), kPageBytes);
  EXPECT_EQ(heap.give_back(2 * kPageBytes), 2 * kPageBytes);
  EXPECT_EQ(heap.take(4 * kPageBytes), kPageBytes);
}

TEST(Heap, StartsLongRangesAtHugePages) {
  Heap heap(kPageBytes, 8 * kHugePageBytes);
  EXPECT_EQ(heap.take(kHugePageBytes), kHugePageBytes);
  EXPECT_EQ(heap.take(kPageBytes), kPageBytes);
  EXPECT_EQ(heap.take(kHugePageBytes + 1), 2 * kHugePageBytes);
}

}  // namespace
}  // namespace fsdp::memory
