#include "layout/unit_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "fsdp/error.h"

namespace fsdp::layout {
namespace {

TEST(UnitLayout, StartsEveryParameterAndEndsEveryShardAtAMultipleOf64) {
  UnitLayout layout({10, 64, 65, 0, 1}, 3, 3);
  EXPECT_EQ(layout.offset_of(0), 0);
  EXPECT_EQ(layout.offset_of(1), 64);
  EXPECT_EQ(layout.offset_of(2), 128);
  EXPECT_EQ(layout.offset_of(3), 256);
  EXPECT_EQ(layout.offset_of(4), 256);
  EXPECT_EQ(layout.shard_numel(), 128);
  EXPECT_EQ(layout.full_numel(), 384);
}

TEST(UnitLayout, CutsAParameterAtTheShardsEnd) {
  UnitLayout layout({100, 100}, 2, 2);  // starts 0 and 128, ends 256: shards of 128
  EXPECT_EQ(layout.piece_of(0, 0), (Range{0, 100}));
  EXPECT_EQ(layout.piece_of(0, 1), Range{});
  EXPECT_EQ(layout.piece_of(1, 1), (Range{0, 100}));
  UnitLayout cut({200}, 2, 2);
  EXPECT_EQ(cut.piece_of(0, 0), (Range{0, 128}));
  EXPECT_EQ(cut.piece_of(0, 1), (Range{0, 72}));
  EXPECT_EQ(cut.piece_offset_of(0, 1), 128);
}

TEST(UnitLayout, MayLeaveRanksWithNothing) {
  UnitLayout layout({5}, 4, 4);
  EXPECT_EQ(layout.shard_numel(), 64);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(layout.piece_of(0, rank).numel(), 0);
  UnitLayout empty({}, 2, 2);
  EXPECT_EQ(empty.full_numel(), 0);
}

TEST(UnitLayout, PutsReplicasOfAShardIntoDifferentGroups) {
  UnitLayout layout({500}, 4, 2);  // slices of 128, shards of 256
  EXPECT_EQ(layout.full_numel(), 512);
  EXPECT_EQ(layout.shard_of(1), layout.shard_of(3));
  EXPECT_EQ(layout.shard_of(1), (Range{256, 512}));
  EXPECT_EQ(layout.slice_of(0), (Range{0, 128}));
  EXPECT_EQ(layout.slice_of(2), (Range{128, 256}));
  EXPECT_EQ(layout.slice_of(1), (Range{256, 384}));
  EXPECT_EQ(layout.slice_of(3), (Range{384, 512}));
  EXPECT_EQ(layout.piece_of(0, 3), (Range{0, 244}));
  EXPECT_EQ(layout.segment_of(0, 3), (Range{0, 116}));
}

TEST(UnitLayout, SlicesCoverTheUnitOnceAndLieInTheirRanksShards) {
  for (int shards : {1, 2, 3, 4, 6, 12}) {
    UnitLayout layout({1000, 7, 4000}, 12, shards);
    std::vector<Range> slices;
    for (int rank = 0; rank < 12; ++rank) {
      slices.push_back(layout.slice_of(rank));
      EXPECT_EQ(intersect(slices[rank], layout.shard_of(rank)), slices[rank]) << "shards " << shards;
      EXPECT_EQ(slices[rank].numel() % kAlignmentNumel, 0);
    }
    std::sort(slices.begin(), slices.end(), [](Range a, Range b) { return a.begin < b.begin; });
    int64_t end = 0;
    for (Range slice : slices) EXPECT_EQ(std::exchange(end, slice.end), slice.begin) << "shards " << shards;
    EXPECT_EQ(end, layout.full_numel());
  }
}

TEST(UnitLayout, PiecesCoverEveryParameterOnceOnAnyNumberOfRanks) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> numels(random() % 6);
    for (int64_t& numel : numels) numel = random() % 500;
    int groups = 1 + random() % 3;
    int shards = 1 + random() % 5;
    UnitLayout layout(numels, groups * shards, shards);
    EXPECT_EQ(layout.shard_numel() % kAlignmentNumel, 0);
    for (size_t parameter = 0; parameter < numels.size(); ++parameter) {
      int64_t covered = 0;
      for (int rank = 0; rank < shards; ++rank) {
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
  EXPECT_THROW(UnitLayout({-1}, 1, 1), Error);
  EXPECT_THROW(UnitLayout({1}, 0, 1), Error);
  EXPECT_THROW(UnitLayout({1}, 4, 0), Error);
  EXPECT_THROW(UnitLayout({1}, 4, 3), Error);
  EXPECT_THROW(UnitLayout({std::numeric_limits<int64_t>::max() - 8}, 1, 1), Error);
}

}  // namespace
}  // namespace fsdp::layout
