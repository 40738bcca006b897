#include "memory/kept_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace fsdp::memory {
namespace {

constexpr size_t kMegabyte = 1 << 20;

bool is_mapped(void* block) { return msync(block, 1, MS_ASYNC) == 0; }

std::vector<void*> taken(KeptBlocks& blocks, size_t count, size_t bytes) {
  std::vector<void*> all;
  for (size_t i = 0; i < count; ++i) all.push_back(blocks.take(bytes));
  return all;
}

TEST(KeptBlocks, AreUsedForTheNextOfAboutTheirSize) {
  KeptBlocks blocks;
  const std::vector<void*> all = taken(blocks, 4, 8 * kMegabyte);
  blocks.give_back(all[0]);
  EXPECT_EQ(blocks.bytes().kept, 8 * kMegabyte);
  void* const larger = blocks.take(9 * kMegabyte);
  EXPECT_NE(larger, all[0]);
  blocks.give_back(larger);
  void* const smaller = blocks.take(4 * kMegabyte);
  EXPECT_NE(smaller, larger);
  blocks.give_back(smaller);
  blocks.give_back(all[1]);
  EXPECT_EQ(blocks.take(8 * kMegabyte - kMegabyte / 2), all[1]);
  EXPECT_EQ(blocks.bytes().in_use, 24 * kMegabyte);
  EXPECT_TRUE(blocks.has(all[1]));
  EXPECT_FALSE(blocks.has(smaller));
  EXPECT_FALSE(blocks.has(&blocks));
}

TEST(KeptBlocks, AreAQuarterOfTheMostInUseAndTheOldestGoBackToTheSystem) {
  KeptBlocks blocks;
  const std::vector<void*> all = taken(blocks, 8, kMegabyte);
  for (void* block : all) blocks.give_back(block);
  const KeptBlocks::Bytes bytes = blocks.bytes();
  EXPECT_EQ(bytes.in_use, 0u);
  EXPECT_EQ(bytes.most_in_use, 8 * kMegabyte);
  EXPECT_EQ(bytes.kept, 2 * kMegabyte);
  EXPECT_FALSE(is_mapped(all[0]));
  EXPECT_TRUE(is_mapped(all[7]));
}

TEST(KeptBlocks, OfMoreThanAQuarterAreNotKeptAndCostNoOther) {
  KeptBlocks blocks;
  const std::vector<void*> small = taken(blocks, 4, kMegabyte);
  void* const large = blocks.take(4 * kMegabyte);
  blocks.give_back(small[0]);
  blocks.give_back(large);
  EXPECT_EQ(blocks.bytes().kept, kMegabyte);
  EXPECT_FALSE(is_mapped(large));
}

TEST(KeptBlocks, MakeRoomForOneThatTheSystemHasToGive) {
  KeptBlocks blocks;
  const std::vector<void*> all = taken(blocks, 8, kMegabyte);
  blocks.give_back(all[0]);
  blocks.give_back(all[1]);
  EXPECT_EQ(blocks.bytes().kept, 2 * kMegabyte);
  blocks.take(3 * kMegabyte);
  EXPECT_EQ(blocks.bytes().kept, 0u);
  EXPECT_EQ(blocks.bytes().most_in_use, 9 * kMegabyte);
}

// Each block is written at its beginning and its end: none is used for two.
void take_and_give_back(KeptBlocks& blocks, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<uint32_t*, size_t>> held;
  for (uint32_t i = 0; i < 3000; ++i) {
    if (held.size() < 12 && random() % 2 == 0) {
      const size_t count = (1 + random() % 64) * (16 << 10);
      auto* const block = static_cast<uint32_t*>(blocks.take(count * sizeof(uint32_t)));
      ASSERT_NE(block, nullptr);
      block[0] = block[count - 1] = i ^ seed;
      held.emplace_back(block, count);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const auto [block, count] = held.back();
      EXPECT_EQ(block[0], block[count - 1]);
      held.pop_back();
      blocks.give_back(block);
    }
    const KeptBlocks::Bytes bytes = blocks.bytes();
    EXPECT_LE(bytes.in_use + bytes.kept, bytes.most_in_use);
  }
  for (const auto& [block, count] : held) blocks.give_back(block);
}

TEST(KeptBlocks, NeverTakeMoreThanTheMostThatWasInUseInAnyThread) {
  KeptBlocks blocks;
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([&, seed] { take_and_give_back(blocks, seed << 20); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(blocks.bytes().in_use, 0u);
}

TEST(KeptBlocks, OfMoreThanThereIsAreNone) {
  KeptBlocks blocks;
  EXPECT_EQ(blocks.take(std::numeric_limits<size_t>::max()), nullptr);
  EXPECT_EQ(blocks.take(size_t{1} << 60), nullptr);
  EXPECT_EQ(blocks.bytes().in_use, 0u);
  EXPECT_NE(blocks.take(0), nullptr);
}

}  // namespace
}  // namespace fsdp::memory
