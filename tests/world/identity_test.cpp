#include "world/identity.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fsdp/error.h"
#include "support/message_of.h"

namespace fsdp::world {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(Places, SurviveTheStore) {
  const Place place = decode_place(encode({"3f-net:[1]", 2, 4, "cuda", "node-1"}));
  EXPECT_EQ(place.machine, "3f-net:[1]");
  EXPECT_EQ(place.local_rank, 2);
  EXPECT_EQ(place.local_size, 4);
  EXPECT_EQ(place.device, "cuda");
  EXPECT_EQ(place.host, "node-1");
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
  // A launcher's host is no host where its ranks cannot share memory.
  EXPECT_EQ(ranks_of_every_host({{"a", 0, 2}, {"b", 1, 2}, {"c", 0, 2}, {"c", 1, 2}}), 0);
}

TEST(KindsOfDevices, ThatDifferAreNamedWithTheirRanksAndHosts) {
  std::vector<Place> places{
      {"a", 0, 2, "cuda", "x"}, {"a", 1, 2, "cuda", "x"}, {"b", 0, 2, "cuda", "y"}, {"b", 1, 2, "cuda", "y"}};
  check_same_kind_of_device(places);
  places[2].device = places[3].device = "cpu";
  EXPECT_THAT(message_of<Error>([&] { check_same_kind_of_device(places); }),
              AllOf(HasSubstr("cuda on host x (rank 0, 1); cpu on host y (rank 2, 3)."),
                    HasSubstr("CUDA_VISIBLE_DEVICES"), HasSubstr("backend hosts or gloo")));
}

TEST(KindsOfDevices, OfManyHostsAreNotAllNamed) {
  std::vector<Place> places;
  for (int host = 0; host < 100; ++host) {
    places.push_back({fmt::format("{}", host), 0, 1, host == 1 ? "cpu" : "cuda", fmt::format("node{}", host)});
  }
  EXPECT_THAT(message_of<Error>([&] { check_same_kind_of_device(places); }),
              AllOf(HasSubstr("cpu on host node1 (rank 1)"), HasSubstr("node9 (rank 9); and 90 more.")));
}

}  // namespace
}  // namespace fsdp::world
