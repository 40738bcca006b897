#include "plan/mesh_places.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

TEST(MeshPlaces, OfARankFollowTheRuleOfTheMesh) {
  const MeshPlaces places({.data = 3, .pipeline = 2, .tensor = 2}, 2);  // 6 ranks each
  EXPECT_EQ(places.hosts_along(&MeshCoordinates::pipeline, {}), (std::vector<int64_t>{0, 0}));
  // The pipeline of the groups that are left over begins before the second host's own.
  EXPECT_EQ(places.hosts_along(&MeshCoordinates::pipeline, {.data = 1}), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(places.hosts_along(&MeshCoordinates::pipeline, {.data = 2}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(places.rank_of({.data = 1, .pipeline = 0, .tensor = 1}), 5);
}

// All small meshes and hosts. Most have their ranks in the order of the grid, and need no table.
TEST(MeshPlaces, AreThoseOfTheGrid) {
  int moved = 0;
  for (const int64_t data : {1, 2, 3, 4}) {
    for (const int64_t pipeline : {1, 2, 3}) {
      for (const int64_t tensor : {1, 2, 3, 4}) {
        const int64_t ranks = data * pipeline * tensor;
        for (int64_t hosts = 1; hosts <= ranks; ++hosts) {
          if (ranks % hosts != 0) continue;
          SCOPED_TRACE(::testing::Message() << data << " x " << pipeline << " x " << tensor << " on " << hosts);
          std::vector<world::HostOfRank> host_of_rank;
          for (int64_t rank = 0; rank < ranks; ++rank)
            host_of_rank.push_back({.number = rank / (ranks / hosts), .name = ""});
          const world::Grid grid({{"data", static_cast<int>(data)},
                                  {"pipeline", static_cast<int>(pipeline)},
                                  {"tensor", static_cast<int>(tensor)}},
                                 host_of_rank);
          std::vector<int64_t> found;
          const MeshPlaces places({.data = data, .pipeline = pipeline, .tensor = tensor}, hosts);
          places.for_each([&](const MeshCoordinates& at) { found.push_back(places.rank_of(at)); });
          ASSERT_EQ(found, std::vector<int64_t>(grid.ranks().begin(), grid.ranks().end()));
          moved += std::ranges::is_sorted(found) ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(moved, 0);
}

// Groups of 8 on hosts of 20 leave ranks over.
TEST(MeshPlaces, OfAHundredThousandRanksAreFoundAtOnce) {
  const MeshPlaces places({.data = 12'500, .tensor = 8}, 5'000);
  std::vector<int> ranks_of_host(5'000, 0);
  places.for_each([&](const MeshCoordinates& at) { ++ranks_of_host[static_cast<size_t>(places.host_of(at))]; });
  EXPECT_THAT(ranks_of_host, ::testing::Each(20));
  EXPECT_EQ(places.rank_of({.data = 1'003}), 8'020);  // the third of five groups on two hosts is of the ranks left over
}

TEST(MeshPlaces, RefuseNonsense) {
  const auto refusal = [](const MeshSizes& sizes, int64_t hosts) {
    return message_of<Error>([&] { MeshPlaces(sizes, hosts); });
  };
  EXPECT_THAT(refusal({.data = 0}, 1), HasSubstr("found a mesh of 0 data x 1 pipeline x 1 tensor ranks"));
  EXPECT_THAT(refusal({.data = 1 << 20, .pipeline = 1 << 20, .tensor = INT64_MAX}, 1), HasSubstr("at most 1048576"));
  EXPECT_THAT(refusal({.data = 8}, 3), HasSubstr("found 3 hosts for 8 ranks"));
  EXPECT_THAT(refusal({.data = 8}, 0), HasSubstr("found 0 hosts for 8 ranks"));
}

}  // namespace
}  // namespace fsdp::plan
