#include "world/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace fsdp::world {
namespace {

// A letter for the host of each rank: "AABB".
std::vector<HostOfRank> hosts_named(const std::string& letters) {
  std::vector<HostOfRank> hosts;
  for (const char letter : letters) hosts.push_back({letter * 1000003, std::string(1, letter)});
  return hosts;
}

Axes axes_of(const std::vector<int>& sizes) {
  Axes axes;
  for (const int size : sizes) axes.emplace_back(std::string(1, static_cast<char>('a' + axes.size())), size);
  return axes;
}

// The ranks by position, with a bar after each group of the last axis.
std::string layout_of(const std::string& hosts, const std::vector<int>& sizes) {
  const Grid grid(axes_of(sizes), hosts_named(hosts));
  std::vector<std::string> lines;
  for (auto rank = grid.ranks().begin(); rank != grid.ranks().end(); rank += sizes.back()) {
    lines.push_back(fmt::format("{}", fmt::join(rank, rank + sizes.back(), " ")));
  }
  return fmt::format("{}", fmt::join(lines, " | "));
}

struct ExpectedLayout {
  std::string hosts;
  std::vector<int> sizes;
  std::string layout;
};

void expect_layouts(const std::vector<ExpectedLayout>& rows) {
  for (const ExpectedLayout& row : rows) {
    EXPECT_EQ(layout_of(row.hosts, row.sizes), row.layout)
        << row.hosts << " as " << fmt::format("{}", fmt::join(row.sizes, " x "));
  }
}

TEST(Grid, IsRowMajorOnOneHost) {
  expect_layouts({{"A", {1}, "0"},
                  {"AAAA", {4}, "0 1 2 3"},
                  {"AAAA", {2, 2}, "0 1 | 2 3"},
                  {"AAAA", {4, 1}, "0 | 1 | 2 | 3"},
                  {"AAAA", {1, 4}, "0 1 2 3"},
                  {"AAAAAAAA", {2, 2, 2}, "0 1 | 2 3 | 4 5 | 6 7"},
                  {"AAAAAA", {2, 3}, "0 1 2 | 3 4 5"}});
}

TEST(Grid, KeepsTheNumbersOfRanksThatAreNumberedHostByHost) {
  expect_layouts({{"AABB", {2, 2}, "0 1 | 2 3"},
                  {"AABB", {4}, "0 1 2 3"},
                  {"AAAABBBB", {4, 2}, "0 1 | 2 3 | 4 5 | 6 7"},
                  {"AAAABBBB", {2, 2, 2}, "0 1 | 2 3 | 4 5 | 6 7"},
                  {"AABBCC", {3, 2}, "0 1 | 2 3 | 4 5"}});
}

// SLURM's --distribution=cyclic, and mpirun --map-by node.
TEST(Grid, PutsNeighboursOnOneHostThoughRanksAreNumberedInTurn) {
  expect_layouts({{"ABAB", {2, 2}, "0 2 | 1 3"},
                  {"ABAB", {4}, "0 2 1 3"},
                  {"ABABABAB", {2, 4}, "0 2 4 6 | 1 3 5 7"},
                  {"ABABABAB", {4, 2}, "0 2 | 4 6 | 1 3 | 5 7"},
                  {"ABCABC", {3, 2}, "0 3 | 1 4 | 2 5"},
                  // In blocks of two: --distribution=plane=2.
                  {"AABBAABB", {2, 4}, "0 1 4 5 | 2 3 6 7"}});
}

// The host of the lowest rank is the first, whatever its number or name.
TEST(Grid, TakesHostsInTheOrderOfTheirLowestRanks) { expect_layouts({{"BBAACC", {3, 2}, "0 1 | 2 3 | 4 5"}}); }

TEST(Grid, SpreadsOnlyRanksThatAreLeftOver) {
  expect_layouts({{"AAAB", {2, 2}, "0 1 | 2 3"},
                  {"ABBB", {2, 2}, "0 3 | 1 2"},
                  {"AAABBB", {3, 2}, "0 1 | 2 5 | 3 4"},
                  {"AAABBBBB", {2, 4}, "0 1 2 7 | 3 4 5 6"},
                  {"AAABBB", {2, 3}, "0 1 2 | 3 4 5"},
                  // No host has four.
                  {"AAABBBCC", {2, 4}, "0 1 2 3 | 4 5 6 7"},
                  // One rank per host.
                  {"ABCD", {2, 2}, "0 1 | 2 3"},
                  // An axis that is larger than a host.
                  {"AABB", {1, 4}, "0 1 2 3"},
                  {"ABAB", {1, 4}, "0 2 1 3"}});
}

TEST(Grid, KeepsTheAxisBeforeTheLastOnOneHostAsWell) {
  expect_layouts({{"ABBBBAAC", {2, 2, 2}, "0 5 | 6 7 | 1 2 | 3 4"},
                  {"AABBBBCC", {2, 2, 2}, "0 1 | 6 7 | 2 3 | 4 5"},
                  {"AAAAAABB", {2, 2, 2}, "0 1 | 2 3 | 4 5 | 6 7"}});
}

TEST(Grid, HasCoordinatesAndGroups) {
  const Grid grid(axes_of({2, 3, 4}), hosts_named(std::string(24, 'A')));
  for (int position = 0; position < 24; ++position) {
    EXPECT_EQ(grid.position_of(grid.ranks()[position]), position);
    EXPECT_EQ(grid.coordinate(position, 0), position / 12);
    EXPECT_EQ(grid.coordinate(position, 1), position / 4 % 3);
    EXPECT_EQ(grid.coordinate(position, 2), position % 4);
    EXPECT_EQ(grid.group_of(position, {}), position);
    EXPECT_EQ(grid.group_of(position, {0, 1, 2}), 0);
    EXPECT_EQ(grid.group_of(position, {2}), position / 4 * 4);
    EXPECT_EQ(grid.group_of(position, {0, 2}), grid.group_of(position, {2, 0}));
  }
  std::map<int, std::vector<int>> groups;
  for (int position = 0; position < 24; ++position) groups[grid.group_of(position, {0, 2})].push_back(position);
  EXPECT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0], (std::vector<int>{0, 1, 2, 3, 12, 13, 14, 15}));
}

// Blocks of `size` positions whose ranks are on one host.
int blocks_on_one_host(const Grid& grid, const std::string& hosts, int size) {
  int count = 0;
  for (size_t begin = 0; begin < hosts.size(); begin += size) {
    std::set<char> found;
    for (int i = 0; i < size; ++i) found.insert(hosts[grid.ranks()[begin + i]]);
    count += found.size() == 1;
  }
  return count;
}

TEST(Grid, HasAsManyGroupsOnOneHostAsThereCanBe) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<int> sizes{int(random() % 4 + 1), int(random() % 4 + 1), int(random() % 5 + 1)};
    const int ranks = sizes[0] * sizes[1] * sizes[2], most_hosts = static_cast<int>(random() % 5) + 1;
    std::string hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts += static_cast<char>('A' + random() % most_hosts);
    const Grid grid(axes_of(sizes), hosts_named(hosts));
    EXPECT_EQ(std::set<int>(grid.ranks().begin(), grid.ranks().end()).size(), static_cast<size_t>(ranks));
    EXPECT_EQ(grid.position_of(0), 0) << hosts;
    std::map<char, int> on_host;
    for (const char host : hosts) ++on_host[host];
    for (const int size : {sizes[2], sizes[1] * sizes[2]}) {
      int possible = 0;
      for (const auto& [host, count] : on_host) possible += count / size;
      EXPECT_EQ(blocks_on_one_host(grid, hosts, size), possible) << hosts << fmt::format(" {}", sizes);
    }
  }
}

}  // namespace
}  // namespace fsdp::world
