#include "base/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

namespace fsdp {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> all_of(int64_t count, uint64_t seed, uint64_t epoch = 0) {
  const Permutation permutation(count, seed, epoch);
  std::vector<int64_t> all;
  for (int64_t place = 0; place < count; ++place) all.push_back(permutation.at(place));
  return all;
}

// Written down, from a second implementation, so that another machine, compiler or version of ours that orders
// otherwise is noticed: it would change every run.
TEST(Permutation, IsTheSameEverywhere) {
  EXPECT_THAT(all_of(8, 1, 0), ElementsAre(1, 5, 0, 7, 3, 4, 2, 6));
  EXPECT_THAT(all_of(8, 1, 1), ElementsAre(7, 3, 0, 4, 6, 5, 2, 1));
  EXPECT_THAT(all_of(8, 2, 0), ElementsAre(7, 5, 4, 6, 2, 1, 3, 0));
  const Permutation large(10'000'000'000, 7, 3);
  EXPECT_EQ(large.at(0), 1575108257);
  EXPECT_EQ(large.at(1), 4092960566);
  EXPECT_EQ(large.at(9'999'999'999), 7947726805);
}

TEST(Permutation, HasEachNumberOnce) {
  for (int64_t count = 1; count < 400; ++count) {
    std::vector<int64_t> sorted = all_of(count, 3), expected(static_cast<size_t>(count));
    std::sort(sorted.begin(), sorted.end());
    std::iota(expected.begin(), expected.end(), int64_t{0});
    ASSERT_EQ(sorted, expected) << "of " << count;
  }
}

TEST(Permutation, OfTheMostNumbersThatThereMayBe) {
  const int64_t count = int64_t{1} << 62;
  const Permutation permutation(count, 1, 0);
  for (int64_t place : {int64_t{0}, count / 2, count - 1}) {
    EXPECT_GE(permutation.at(place), 0);
    EXPECT_LT(permutation.at(place), count);
  }
}

// The sum of (found - expected)^2 / expected, which for a fair draw is about the number of cells.
template <typename Cells>
double chi_square(const Cells& counts, double expected) {
  double sum = 0;
  for (const auto& [cell, found] : counts) sum += (found - expected) * (found - expected) / expected;
  return sum;
}

// The bounds are what a fair draw passes in 999,999 of a million cases (chi-square distribution); the draws are the
// same each time.
TEST(Permutation, AllOrdersAreAsLikely) {
  std::map<std::vector<int64_t>, double> by_seed, by_epoch;
  for (uint64_t i = 0; i < 24'000; ++i) {
    ++by_seed[all_of(4, i, 0)];
    ++by_epoch[all_of(4, 1, i)];
  }
  ASSERT_EQ(by_seed.size(), 24u);
  ASSERT_EQ(by_epoch.size(), 24u);
  EXPECT_LT(chi_square(by_seed, 1000), 76);  // 23 degrees of freedom
  EXPECT_LT(chi_square(by_epoch, 1000), 76);

  std::map<std::vector<int64_t>, double> of_five;
  for (uint64_t i = 0; i < 24'000; ++i) ++of_five[all_of(5, i, 0)];
  ASSERT_EQ(of_five.size(), 120u);
  EXPECT_LT(chi_square(of_five, 200), 209);  // 119 degrees of freedom
}

TEST(Permutation, EachNumberIsAsLikelyAtEachPlace) {
  std::map<std::pair<int64_t, int64_t>, double> counts;
  constexpr int64_t kCount = 23;
  for (uint64_t seed = 0; seed < 23'000; ++seed) {
    const std::vector<int64_t> all = all_of(kCount, seed);
    for (int64_t place = 0; place < kCount; ++place) ++counts[{place, all[static_cast<size_t>(place)]}];
  }
  ASSERT_EQ(counts.size(), 529u);
  EXPECT_LT(chi_square(counts, 1000), 642);  // 484 degrees of freedom
}

TEST(Permutation, NeighboursAreFarApart) {
  constexpr int64_t kCount = 100'000;
  const std::vector<int64_t> all = all_of(kCount, 5);
  double distance = 0;
  for (size_t i = 1; i < all.size(); ++i) distance += static_cast<double>(std::abs(all[i] - all[i - 1]));
  // A third of the count is the mean of two random places; its deviation over so many is below a thousandth of it.
  EXPECT_NEAR(distance / kCount, kCount / 3.0, 0.01 * kCount);
}

}  // namespace
}  // namespace fsdp
