#include "report/decimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::IsNan;

TEST(Grid, CoversEveryRecordOnceWithAtMostSoManyGroups) {
  for (const size_t count : {0, 1, 2, 999, 1000, 1001, 1999, 12345, 1'000'000}) {
    const Grid grid = grid_of(count, 1000);
    EXPECT_LE(grid.groups(), 1000u);
    size_t next = 0;
    for (size_t group = 0; group < grid.groups(); ++group) {
      EXPECT_EQ(grid.first(group), next);
      EXPECT_GT(grid.end(group), grid.first(group));
      EXPECT_GE(grid.middle(group), grid.first(group));
      EXPECT_LT(grid.middle(group), grid.end(group));
      next = grid.end(group);
    }
    EXPECT_EQ(next, count);
    if (count <= 1000) {
      EXPECT_EQ(grid.together, 1u);
    }
  }
}

TEST(Band, HasMeanLowestAndHighest) {
  const Band band = band_of({1, 2, 6, 4, 10}, grid_of(5, 2));
  EXPECT_THAT(band.mean, ElementsAre(3.0, 7.0));
  EXPECT_THAT(band.low, ElementsAre(1.0, 4.0));
  EXPECT_THAT(band.high, ElementsAre(6.0, 10.0));
}

TEST(Band, KeepsASingleSpikeOfAMillionValues) {
  std::vector<double> values(1'000'000, 1.0);
  values[345'678] = 500.0;
  const Band band = band_of(values, grid_of(values.size(), 1000));
  EXPECT_EQ(band.high[345], 500.0);
  EXPECT_EQ(band.low[345], 1.0);
}

TEST(Band, LeavesOutWhatIsNotFinite) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const Band band = band_of({nan, 2, infinity, nan, nan, nan}, grid_of(6, 2));
  EXPECT_THAT(band.mean, ElementsAre(2.0, IsNan()));
  EXPECT_THAT(band.high, ElementsAre(2.0, IsNan()));
}

}  // namespace
}  // namespace trainer
