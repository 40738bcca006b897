#include "checkpoint/saved_ranges.h"

#include <gmock/gmock.h>

#include "fsdp/error.h"

namespace fsdp::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<Manifest::Piece> kPieces{{1, 128}, {2, 64}, {5, 100}};  // elements 0, 128 and 192 to 292

TEST(SavedRanges, CoverWhatIsWantedInItsOrder) {
  EXPECT_THAT(
      saved_ranges(kPieces, {0, 292}, 1),
      ElementsAre(SavedRange{1, 0, 128, 0, 128}, SavedRange{2, 0, 64, 128, 64}, SavedRange{5, 0, 100, 192, 100}));
  EXPECT_THAT(saved_ranges(kPieces, {100, 200}, 1),
              ElementsAre(SavedRange{1, 100, 28, 0, 128}, SavedRange{2, 0, 64, 28, 64}, SavedRange{5, 0, 8, 92, 100}));
  EXPECT_THAT(saved_ranges(kPieces, {130, 140}, 1), ElementsAre(SavedRange{2, 2, 10, 0, 64}));
  EXPECT_THAT(saved_ranges(kPieces, {292, 292}, 1), IsEmpty());
  EXPECT_THAT(saved_ranges({}, {0, 0}, 1), IsEmpty());
}

// One element of the scales for 64 of the parameter's; the last one may be for fewer.
TEST(SavedRanges, OfScalesCountBlocks) {
  EXPECT_THAT(saved_ranges(kPieces, {64, 292}, 64),
              ElementsAre(SavedRange{1, 1, 1, 0, 2}, SavedRange{2, 0, 1, 1, 1}, SavedRange{5, 0, 2, 2, 2}));
  EXPECT_THAT(saved_ranges(kPieces, {192, 210}, 64), ElementsAre(SavedRange{5, 0, 1, 0, 2}));
}

TEST(SavedRanges, OfPiecesThatCutABlockOrEndEarlyAreErrors) {
  EXPECT_THROW(saved_ranges({{0, 65}, {1, 63}}, {64, 128}, 64), Error);
  EXPECT_THROW(saved_ranges(kPieces, {32, 292}, 64), Error);
  EXPECT_THROW(saved_ranges(kPieces, {0, 293}, 1), Error);
  EXPECT_THROW(saved_ranges({}, {0, 1}, 1), Error);
}

}  // namespace
}  // namespace fsdp::checkpoint
