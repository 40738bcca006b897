#include "planning/places_text.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

std::string hosts_text(int64_t data, int64_t pipeline, int64_t tensor, int64_t hosts) {
  return places_text({{.data = data, .pipeline = pipeline, .tensor = tensor}, hosts});
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

}  // namespace
}  // namespace trainer
