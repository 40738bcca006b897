#include "world/grid_text.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace fsdp::world {
namespace {

// Ranks that are called by their own numbers.
std::string drawing_of(const Axes& axes, const std::vector<HostOfRank>& hosts) {
  std::vector<int> names(hosts.size());
  std::iota(names.begin(), names.end(), 0);
  return draw_grid(Grid(axes, hosts), hosts, names);
}

TEST(GridText, DrawsALineForEachGroupOfTheLastAxis) {
  EXPECT_EQ(drawing_of({{"data", 2}, {"tensor", 2}}, {{1, "node1"}, {2, "node2"}, {1, "node1"}, {2, "node2"}}),
            "data 2 x tensor 2: 4 ranks on 2 hosts\n"
            "data  tensor 0  1  host\n"
            "   0         0  2  node1\n"
            "   1         1  3  node2\n");
}

TEST(GridText, DrawsOneAxisAndThree) {
  EXPECT_EQ(drawing_of({{"data", 3}}, {{1, "a"}, {1, "a"}, {1, "a"}}),
            "data 3: 3 ranks on 1 host\n"
            "data 0  1  2  host\n"
            "     0  1  2  a\n");
  EXPECT_EQ(drawing_of({{"data", 2}, {"stage", 2}, {"tensor", 1}}, {{1, "a"}, {1, "a"}, {1, "a"}, {1, "a"}}),
            "data 2 x stage 2 x tensor 1: 4 ranks on 1 host\n"
            "data  stage  tensor 0  host\n"
            "   0      0         0  a\n"
            "   0      1         1  a\n"
            "   1      0         2  a\n"
            "   1      1         3  a\n");
}

TEST(GridText, CountsTheRanksOfALineOverSeveralHosts) {
  EXPECT_EQ(drawing_of({{"tensor", 3}}, {{1, "a"}, {2, "b"}, {1, "a"}}),
            "tensor 3: 3 ranks on 2 hosts\n"
            "tensor 0  1  2  host\n"
            "       0  2  1  a (2), b (1)\n");
}

TEST(GridText, TellsHostsOfOneNameApart) {
  EXPECT_EQ(drawing_of({{"data", 2}, {"tensor", 1}}, {{1, "box"}, {2, "box"}}),
            "data 2 x tensor 1: 2 ranks on 2 hosts\n"
            "data  tensor 0  host\n"
            "   0         0  box\n"
            "   1         1  box#2\n");
}

TEST(GridText, CallsRanksByTheirNames) {
  const std::vector<HostOfRank> hosts{{1, "a"}, {1, "a"}};
  EXPECT_EQ(draw_grid(Grid({{"data", 2}}, hosts), hosts, {5, 7}),
            "data 2: 2 ranks on 1 host\n"
            "data 0  1  host\n"
            "     5  7  a\n");
}

}  // namespace
}  // namespace fsdp::world
