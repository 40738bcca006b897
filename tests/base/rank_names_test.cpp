#include "base/rank_names.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/rank_thread.h"

namespace fsdp {
namespace {

// Each test is a rank.
class RankNames : public ::testing::Test {
 private:
  RankScope rank_;
};

TEST_F(RankNames, AreNumbersWithoutAPlace) {
  EXPECT_EQ(text_of_rank(1), "rank 1");
  EXPECT_FALSE(is_on_mesh(1));
}

TEST_F(RankNames, HaveTheLatestPlaceAmongAsManyRanks) {
  set_places({0, 1}, {"data 0", "data 1"});
  EXPECT_EQ(text_of_rank(1), "rank 1 (data 1)");
  EXPECT_TRUE(is_on_mesh(1));
  set_places({1, 0}, {"tensor 0", "tensor 1"});
  EXPECT_EQ(text_of_rank(1), "rank 1 (tensor 0)");
}

TEST_F(RankNames, KeepThePlaceAmongMoreRanks) {
  set_places({0, 1, 2, 3}, {"data 0", "data 1", "data 2", "data 3"});
  set_places({1, 2}, {"inner 0", "inner 1"});
  EXPECT_EQ(text_of_rank(2), "rank 2 (data 2)");
}

TEST_F(RankNames, HaveNoPlaceAlone) {
  set_places({0}, {"data 0"});
  EXPECT_EQ(text_of_rank(0), "rank 0");
}

TEST_F(RankNames, BeginMessages) {
  EXPECT_EQ(message_prefix(), "[fsdp] ");
  set_this_rank(3, 8);
  EXPECT_EQ(message_prefix(), "[fsdp rank 3/8] ");
  EXPECT_EQ(message_prefix("blocks.4"), "[fsdp rank 3/8 unit=blocks.4] ");
}

TEST_F(RankNames, BelongToAThreadThatIsARank) {
  set_this_rank(0, 2);
  set_places({0, 1}, {"data 0", "data 1"});
  std::thread([] {
    const RankScope other;
    EXPECT_EQ(message_prefix(), "[fsdp] ");
    EXPECT_FALSE(is_on_mesh(1));
    set_this_rank(1, 2);
    EXPECT_EQ(message_prefix(), "[fsdp rank 1/2] ");
  }).join();
  EXPECT_EQ(message_prefix(), "[fsdp rank 0/2] ");
}

TEST_F(RankNames, AreSharedWithTheThreadsOfTheRank) {
  set_this_rank(1, 2);
  std::thread own(of_this_rank([] {
    EXPECT_EQ(message_prefix(), "[fsdp rank 1/2] ");
    set_places({0, 1}, {"data 0", "data 1"});
  }));
  own.join();
  EXPECT_TRUE(is_on_mesh(1));
  std::jthread([&](const std::stop_token&) { EXPECT_EQ(message_prefix(), "[fsdp] "); }).join();  // of the process
}

TEST_F(RankNames, AreThoseFromBeforeAfterAScope) {
  set_this_rank(1, 2);
  {
    const RankScope other;
    set_this_rank(5, 6);
  }
  EXPECT_EQ(message_prefix(), "[fsdp rank 1/2] ");
}

}  // namespace
}  // namespace fsdp
