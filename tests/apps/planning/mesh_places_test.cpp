#include "planning/mesh_places.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

std::string hosts_text(int64_t data, int64_t pipeline, int64_t tensor, int64_t hosts) {
  return MeshPlaces(
             {.data = data, .pipeline = pipeline, .tensor = tensor, .cuts = {}, .schedule = {}, .schedule_name = {}},
             hosts)
      .text();
}

TEST(MeshHosts, AreSaidByAxis) {
  EXPECT_EQ(hosts_text(2, 2, 2, 1), "all ranks share a host");
  EXPECT_EQ(hosts_text(1, 4, 2, 2), "tensor ranks share a host; the ranks of a pipeline lie on 2 hosts: 0-1, 2-3");
  EXPECT_EQ(hosts_text(2, 2, 2, 2),
            "tensor ranks share a host; the ranks of a pipeline share a host; data ranks lie on 2 hosts");
  EXPECT_EQ(hosts_text(1, 1, 4, 2), "tensor ranks lie on 2 hosts");
}

// Groups of 2 on hosts of 3: the third group is of the ranks that are left over.
TEST(MeshHosts, MayDifferBetweenGroups) {
  EXPECT_EQ(hosts_text(3, 1, 2, 2), "tensor ranks lie on 1 to 2 hosts; data ranks lie on 2 hosts");
}

TEST(MeshHosts, OfARankFollowTheRuleOfTheMesh) {
  const PlannedMesh mesh{.data = 3, .pipeline = 2, .tensor = 2, .cuts = {}, .schedule = {}, .schedule_name = {}};
  const MeshPlaces places(mesh, 2);  // 6 ranks each
  EXPECT_EQ(places.hosts_along(&MeshCoordinates::pipeline, {}), (std::vector<int64_t>{0, 0}));
  // The pipeline of the groups that are left over begins before the second host's own.
  EXPECT_EQ(places.hosts_along(&MeshCoordinates::pipeline, {.data = 1}), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(places.hosts_along(&MeshCoordinates::pipeline, {.data = 2}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(places.rank_of({.data = 1, .pipeline = 0, .tensor = 1}), 5);
}

}  // namespace
}  // namespace trainer
