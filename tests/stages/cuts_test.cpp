// Cuts of blocks into stages.
#include "stages/cuts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

#include "base/error.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The order in which cuts are better: largest cost, sum of squares, more blocks earlier.
using CutRank = std::tuple<double, double, std::vector<int>>;

CutRank rank_of_cuts(const std::vector<double>& costs, const std::vector<int>& cuts) {
  double largest = 0, squares = 0;
  std::vector<int> fewer;
  auto block = costs.begin();
  for (int count : cuts) {
    const double cost = std::accumulate(block, block + count, 0.0);
    block += count;
    largest = std::max(largest, cost);
    squares += cost * cost;
    fewer.push_back(-count);
  }
  return {largest, squares, fewer};
}

// Tries all cuts.
void try_cuts(const std::vector<double>& costs, int stages, std::vector<int>& cuts, std::optional<CutRank>& best) {
  const int left = static_cast<int>(costs.size()) - std::accumulate(cuts.begin(), cuts.end(), 0);
  if (stages == 1) {
    cuts.push_back(left);
    const CutRank rank = rank_of_cuts(costs, cuts);
    if (!best || rank < *best) best = rank;
    cuts.pop_back();
    return;
  }
  for (int count = 1; count <= left - (stages - 1); ++count) {
    cuts.push_back(count);
    try_cuts(costs, stages - 1, cuts, best);
    cuts.pop_back();
  }
}

TEST(EvenCuts, AreTheBestOfAll) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> costs(1 + random() % 9);
    for (double& cost : costs) cost = static_cast<double>(random() % 5);
    const int stages = 1 + static_cast<int>(random() % costs.size());
    const std::vector<int> cuts = even_cuts(costs, stages);
    ASSERT_EQ(cuts.size(), static_cast<size_t>(stages));
    ASSERT_GE(std::ranges::min(cuts), 1);
    ASSERT_EQ(std::accumulate(cuts.begin(), cuts.end(), size_t{0}), costs.size());
    std::vector<int> tried;
    std::optional<CutRank> best;
    try_cuts(costs, stages, tried, best);
    EXPECT_EQ(rank_of_cuts(costs, cuts), best) << ::testing::PrintToString(costs) << " in " << stages;
  }
}

TEST(EvenCuts, OfEqualBlocksDifferByOneAtMostWithTheMostFirst) {
  EXPECT_THAT(even_cuts(std::vector<double>(12, 0.1), 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(even_cuts(std::vector<double>(11, 2), 4), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(even_cuts(std::vector<double>(11, 0.1), 4), ElementsAre(3, 3, 3, 2)) << "sums of 0.1 are rounded";
  EXPECT_THAT(even_cuts(std::vector<double>(98, 1 / 3.0), 32), Each(AnyOf(3, 4)));
  EXPECT_THAT(even_cuts({1, 1, 1, 1, 1, 1, 3}, 3), ElementsAre(3, 3, 1)) << "a head costs as much as three blocks";
  EXPECT_THAT(even_cuts({4, 1, 1, 1}, 3), ElementsAre(1, 2, 1));
}

// Stages of 7, 4, 3 and 10 differ less, but the largest counts first.
TEST(EvenCuts, HaveTheLeastLargestStageAlsoIfTheOthersDifferMore) {
  EXPECT_THAT(even_cuts({0, 7, 4, 3, 9, 1}, 4), ElementsAre(2, 2, 1, 1));
}

TEST(EvenCuts, RefuseWhatCannotBeCut) {
  const auto refusal = [](const std::vector<double>& costs, int stages) {
    return testing::message_of<Error>([&] { even_cuts(costs, stages); });
  };
  EXPECT_THAT(refusal({1, 1}, 3), HasSubstr("found 2 blocks for 3 stages"));
  EXPECT_THAT(refusal({1, 1}, 0), HasSubstr("found 2 blocks for 0 stages"));
  EXPECT_THAT(refusal({1, -1}, 2), HasSubstr("block 1 has the cost -1"));
  EXPECT_THAT(refusal({std::numeric_limits<double>::quiet_NaN(), 1}, 2), HasSubstr("block 0 has the cost nan"));
  EXPECT_THAT(refusal({1, 1e101}, 2), HasSubstr("block 1 has the cost 1e+101, expected one from 0 to 1e100"));
}

TEST(CutNotation, HasBlocksPerStageAndRepetitions) {
  EXPECT_THAT(read_cuts("4,4,3,1", 12, 4), ElementsAre(4, 4, 3, 1));
  EXPECT_THAT(read_cuts("4*2,3,1", 12, 4), ElementsAre(4, 4, 3, 1));
  EXPECT_THAT(read_cuts("12", 12, 1), ElementsAre(12));
  for (const char* text : {"4*2,3,1", "1*3", "2,1,2", "7"}) {
    const std::vector<std::pair<int, int>> sizes = {{12, 4}, {3, 3}, {5, 3}, {7, 1}};
    const auto fits = [&](const auto& size) {
      return testing::message_of<Error>(
                 [&] { EXPECT_EQ(to_string(read_cuts(text, size.first, size.second)), text); }) == "no error";
    };
    EXPECT_EQ(std::ranges::count_if(sizes, fits), 1) << text;
  }
}

TEST(CutNotation, SaysWhatWouldWork) {
  const auto refusal = [](const std::string& text, int blocks, int stages) {
    return testing::message_of<Error>([&] { read_cuts(text, blocks, stages); });
  };
  EXPECT_THAT(refusal("4,4,3", 12, 4), AllOf(HasSubstr("have 11 blocks in 3 stages, expected 12 blocks in 4 stages"),
                                             HasSubstr("for example 3*4")));
  EXPECT_THAT(refusal("4,4,4", 11, 3), HasSubstr("for example 4*2,3"));
  for (const char* text : {"", "4,,4", "4,0,8", "4,-4,12", "4 ,8", "a", "4*", "*2", "4*0", "4*2*1", "4*-1", "4,8,",
                           "99999999999", "1.5,10"})
    EXPECT_THAT(refusal(text, 12, 2), AllOf(HasSubstr("expected blocks per stage"), HasSubstr("for example 6*2")))
        << text;
  EXPECT_THAT(refusal("4,x", 12, 2), HasSubstr("found \"x\""));
  EXPECT_THAT(refusal("1*2000000000", 12, 2), HasSubstr("have more than 65536 stages, expected 2"));
  EXPECT_THAT(refusal("2000000000*2", 12, 2), HasSubstr("have 4000000000 blocks in 2 stages"));
  EXPECT_EQ(refusal("1,1", 1, 2).find("for example"), std::string::npos) << "one block cannot be cut";
}

}  // namespace
}  // namespace fsdp::stages
