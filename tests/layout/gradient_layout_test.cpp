#include "layout/gradient_layout.h"

#include <gtest/gtest.h>

#include <random>

namespace fsdp::layout {
namespace {

TEST(GradientLayout, IsTheUnitsWhereEveryParameterWantsAGradient) {
  UnitLayout unit({100, 64, 1}, 4, 2);
  GradientLayout gradients(unit, {1, 1, 1});
  EXPECT_EQ(gradients.full_numel(), 256);
  for (int rank = 0; rank < 4; ++rank) {
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(gradients.piece_of(i, rank), unit.piece_of(i, rank));
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(gradients.segment_of(i, rank), unit.segment_of(i, rank));
  }
}

TEST(GradientLayout, LeavesOutWhatIsFrozen) {
  UnitLayout unit({1000, 10, 1000, 70}, 2, 2);  // starts 0, 1024, 1088, 2112; shards of 1152
  GradientLayout gradients(unit, {0, 1, 0, 1});
  EXPECT_EQ(gradients.full_numel(), 192);
  EXPECT_EQ(gradients.offset_of(1), 0);
  EXPECT_EQ(gradients.offset_of(3), 64);
  EXPECT_EQ(gradients.slice_of(0), (Range{0, 64}));
  EXPECT_EQ(gradients.slice_of(1), (Range{64, 192}));
  EXPECT_EQ(gradients.piece_of(1, 0), (Range{0, 10}));
  EXPECT_EQ(gradients.piece_of(3, 1), (Range{0, 70}));
  EXPECT_EQ(gradients.piece_of(0, 0), Range{});
  EXPECT_EQ(GradientLayout(unit, {0, 0, 0, 0}).full_numel(), 0);
}

TEST(GradientLayout, GivesEveryElementToTheRankThatHasItInTheUnit) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> numels(random() % 6);
    std::vector<uint8_t> wanted(numels.size());
    for (int64_t& numel : numels) numel = random() % 500;
    for (uint8_t& flag : wanted) flag = random() % 2;
    const int shards = 1 + random() % 4, ranks = shards * (1 + random() % 3);
    UnitLayout unit(numels, ranks, shards);
    GradientLayout gradients(unit, wanted);
    int64_t slices = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      slices += gradients.slice_of(rank).numel();
      EXPECT_EQ(gradients.slice_of(rank).begin % kAlignmentNumel, 0);
      EXPECT_EQ(intersect(gradients.slice_of(rank), gradients.shard_of(rank)).numel(),
                gradients.slice_of(rank).numel());
      for (size_t i = 0; i < numels.size(); ++i) {
        EXPECT_EQ(gradients.piece_of(i, rank).numel(), wanted[i] ? unit.piece_of(i, rank).numel() : 0);
        EXPECT_EQ(gradients.segment_of(i, rank).numel(), wanted[i] ? unit.segment_of(i, rank).numel() : 0);
        EXPECT_LE(gradients.piece_of(i, rank).end, gradients.shard_of(rank).numel());
        EXPECT_LE(gradients.segment_of(i, rank).end, gradients.slice_of(rank).numel());
      }
    }
    EXPECT_EQ(slices, gradients.full_numel());
  }
}

}  // namespace
}  // namespace fsdp::layout
