#include "world/identity.h"

#include <gtest/gtest.h>

namespace fsdp::world {
namespace {

TEST(Places, SurviveTheStore) {
  const Place place = decode_place(encode({"3f-net:[1]", 2, 4}));
  EXPECT_EQ(place.machine, "3f-net:[1]");
  EXPECT_EQ(place.local_rank, 2);
  EXPECT_EQ(place.local_size, 4);
}

TEST(RanksOfEveryHost, AreThoseOfOneHostsAfterAnothers) {
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 2}, {"b", 1, 2}}), 2);
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 1}, {"b", 0, 1}}), 1);
  // Two launchers on one machine.
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 2}, {"a", 1, 2}, {"a", 0, 2}, {"a", 1, 2}}), 2);
}

TEST(RanksOfEveryHost, AreNoneWhereHostsDifferOrTakeTurns) {
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 1}}), 0);
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 1}, {"b", 0, 3}, {"b", 1, 3}, {"b", 2, 3}}), 0);
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 2}, {"b", 0, 2}, {"a", 1, 2}, {"b", 1, 2}}), 0);
  // What a launcher calls one host is none where its ranks cannot share memory.
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 2}, {"b", 1, 2}, {"c", 0, 2}, {"c", 1, 2}}), 0);
}

}  // namespace
}  // namespace fsdp::world
