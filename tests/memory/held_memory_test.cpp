// State that ranks leave in memory that their launcher holds, and when the next ones find it.
#include "memory/held_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace fsdp::memory {
namespace {

// Ranks of one start, in one process.
struct HeldRanks {
  HeldRank zero, one;
  explicit HeldRanks(const HeldMemory& memory) : zero(memory, 0), one(memory, 1) {}

  void commit(int64_t step) {
    for (HeldRank* rank : {&zero, &one}) {
      rank->set_places("places " + std::to_string(rank->rank()), {rank});
      rank->commit(step, "numbers " + std::to_string(step));
    }
  }
};

TEST(HeldMemory, HasNothingBeforeTheFirstCommit) {
  HeldMemory memory(2);
  HeldRanks ranks(memory);
  ranks.zero.changes();
  EXPECT_TRUE(memory.is_whole(0));  // nothing would be lost
  EXPECT_FALSE(memory.left().step.has_value());
  EXPECT_EQ(memory.left().problem, "");
  memory.begin();
  EXPECT_FALSE(HeldRanks(memory).zero.left().has_value());
}

TEST(HeldMemory, IsFoundByTheNextRanks) {
  HeldMemory memory(2);
  HeldRanks ranks(memory);
  ranks.commit(3);
  ranks.zero.changes();
  ranks.one.changes();
  EXPECT_FALSE(memory.is_whole(0));
  ranks.commit(4);
  EXPECT_TRUE(memory.is_whole(0) && memory.is_whole(1));
  EXPECT_EQ(memory.left().step, 4);
  memory.begin();
  HeldRanks next(memory);
  const auto left = next.one.left();
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->step, 4);
  EXPECT_EQ(left->places, "places 1");
  EXPECT_EQ(left->numbers, "numbers 4");
}

TEST(HeldMemory, IsNotWholeInTheMidstOfAStep) {
  HeldMemory memory(2);
  HeldRanks ranks(memory);
  ranks.commit(3);
  ranks.one.changes();
  EXPECT_EQ(memory.left().problem, "rank 1 was changing its state");
  ranks.one.commit(4, "");
  EXPECT_EQ(memory.left().problem, "rank 0 had done 3 steps and rank 1 4");
  memory.begin();
  EXPECT_FALSE(HeldRanks(memory).zero.left().has_value());
}

// Ranks that are killed before they have taken it over leave it to those after them; ones that fail by an error do not.
TEST(HeldMemory, StaysUntilItIsTakenOver) {
  HeldMemory memory(2);
  HeldRanks(memory).commit(3);
  memory.begin();
  EXPECT_EQ(memory.left().step, 3);
  memory.begin();
  HeldRanks third(memory);
  ASSERT_TRUE(third.zero.left().has_value());
  third.commit(3);
  third.zero.drop_left();
  third.one.drop_left();
  EXPECT_FALSE(third.zero.left().has_value());
  EXPECT_EQ(memory.left().step, 3);
  memory.forget_unless_taken_over();
  EXPECT_EQ(memory.left().step, 3);
  memory.begin();
  memory.forget_unless_taken_over();
  EXPECT_FALSE(memory.left().step.has_value());
}

// In a part of the file, which begins where nothing else does.
TEST(HeldMemory, TellsWhereBytesLie) {
  HeldMemory memory(2);
  const HeldRanks ranks(memory);
  MemoryFile file = ranks.one.file().part(HeldRank::kFiles + HeldRank::kFileBytes);
  constexpr size_t kBytes = 3 << 12, kWithin = 5000;
  file.grant(0, kBytes);
  const Mapping mapping(file, kBytes, Access::Write);
  std::memcpy(mapping.base() + kWithin, "held", 4);
  const auto place = HeldRank::Places(ranks.zero).of(mapping.base() + kWithin, 4);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->offset, HeldRank::kFiles + HeldRank::kFileBytes + kWithin);
  const int elsewhere = 0;
  EXPECT_FALSE(HeldRank::Places(ranks.zero).of(&elsewhere, sizeof elsewhere).has_value());

  HeldRanks(memory).commit(1);
  memory.begin();
  std::string found(4, ' ');
  HeldRanks(memory).zero.read_left(*place, 4, [&](const void* bytes) { std::memcpy(found.data(), bytes, 4); });
  EXPECT_EQ(found, "held");
}

}  // namespace
}  // namespace fsdp::memory
