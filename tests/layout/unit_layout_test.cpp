#include "layout/unit_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "fsdp/error.h"

namespace fsdp::layout {
namespace {

TEST(UnitLayout, StartsEveryParameterAndEndsEveryShardAtAMultipleOf64) {
  UnitLayout layout({10, 64, 65, 0, 1}, 3);
  EXPECT_EQ(layout.offset_of(0), 0);
  EXPECT_EQ(layout.offset_of(1), 64);
  EXPECT_EQ(layout.offset_of(2), 128);
  EXPECT_EQ(layout.offset_of(3), 256);
  EXPECT_EQ(layout.offset_of(4), 256);
  EXPECT_EQ(layout.shard_numel(), 128);
  EXPECT_EQ(layout.full_numel(), 384);
}

TEST(UnitLayout, CutsAParameterAtTheShardsEnd) {
  UnitLayout layout({100, 100}, 2);  // starts 0 and 128, ends 256: shards of 128
  EXPECT_EQ(layout.piece_of(0, 0), (Range{0, 100}));
  EXPECT_EQ(layout.piece_of(0, 1), Range{});
  EXPECT_EQ(layout.piece_of(1, 1), (Range{0, 100}));
  UnitLayout cut({200}, 2);
  EXPECT_EQ(cut.piece_of(0, 0), (Range{0, 128}));
  EXPECT_EQ(cut.piece_of(0, 1), (Range{0, 72}));
  EXPECT_EQ(cut.piece_offset_of(0, 1), 128);
}

TEST(UnitLayout, MayLeaveRanksWithNothing) {
  UnitLayout layout({5}, 4);
  EXPECT_EQ(layout.shard_numel(), 64);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(layout.piece_of(0, rank).numel(), 0);
  UnitLayout empty({}, 2);
  EXPECT_EQ(empty.full_numel(), 0);
}

TEST(UnitLayout, PiecesCoverEveryParameterOnceOnAnyNumberOfRanks) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> numels(random() % 6);
    for (int64_t& numel : numels) numel = random() % 500;
    int ranks = 1 + random() % 5;
    UnitLayout layout(numels, ranks);
    EXPECT_EQ(layout.shard_numel() % kAlignmentNumel, 0);
    for (size_t parameter = 0; parameter < numels.size(); ++parameter) {
      int64_t covered = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        Range piece = layout.piece_of(parameter, rank);
        EXPECT_LE(piece.end, layout.shard_numel());
        EXPECT_EQ(layout.piece_offset_of(parameter, rank), piece.numel() > 0 ? covered : 0);
        covered += piece.numel();
      }
      EXPECT_EQ(covered, numels[parameter]);
    }
  }
}

TEST(UnitLayout, RefusesSizesThatCannotBe) {
  EXPECT_THROW(UnitLayout({-1}, 1), Error);
  EXPECT_THROW(UnitLayout({1}, 0), Error);
  EXPECT_THROW(UnitLayout({std::numeric_limits<int64_t>::max() - 8}, 1), Error);
}

}  // namespace
}  // namespace fsdp::layout
