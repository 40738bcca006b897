#include "base/rank_names.h"

#include <gtest/gtest.h>

namespace fsdp {
namespace {

// The places are those of the process: each test has ranks of its own.

TEST(RankNames, AreNumbersWithoutAPlace) {
  EXPECT_EQ(text_of_rank(100), "rank 100");
  EXPECT_FALSE(is_on_mesh(100));
}

TEST(RankNames, HaveTheLatestPlaceAmongAsManyRanks) {
  set_places({10, 11}, {"data 0", "data 1"});
  EXPECT_EQ(text_of_rank(11), "rank 11 (data 1)");
  EXPECT_TRUE(is_on_mesh(11));
  set_places({11, 10}, {"tensor 0", "tensor 1"});
  EXPECT_EQ(text_of_rank(11), "rank 11 (tensor 0)");
}

TEST(RankNames, KeepThePlaceAmongMoreRanks) {
  set_places({20, 21, 22, 23}, {"data 0", "data 1", "data 2", "data 3"});
  set_places({21, 22}, {"inner 0", "inner 1"});
  EXPECT_EQ(text_of_rank(22), "rank 22 (data 2)");
}

TEST(RankNames, HaveNoPlaceAlone) {
  set_places({30}, {"data 0"});
  EXPECT_EQ(text_of_rank(30), "rank 30");
}

}  // namespace
}  // namespace fsdp
