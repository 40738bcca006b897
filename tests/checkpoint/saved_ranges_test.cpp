#include "checkpoint/saved_ranges.h"

#include <gmock/gmock.h>

#include "fsdp/error.h"

namespace fsdp::checkpoint {
namespace {

using layout::Placement;
using layout::Range;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Files and the numbers of their elements, one after the other.
std::vector<Manifest::Part> parts_of(const std::vector<std::pair<int, int64_t>>& pieces, int64_t numel) {
  std::vector<Manifest::Part> parts;
  int64_t begin = 0;
  for (const auto& [file, size] : pieces) {
    parts.push_back({.file = file, .placement = layout::part_of_whole({numel}, {begin, begin + size})});
    begin += size;
  }
  return parts;
}

const std::vector<std::pair<int, int64_t>> kPieces{{1, 128}, {2, 64}, {5, 100}};  // elements 0, 128 and 192 to 292

std::vector<SavedRange> ranges_of(const std::vector<std::pair<int, int64_t>>& pieces, Range wanted, int64_t numel_each,
                                  int64_t numel = 292) {
  return saved_ranges(parts_of(pieces, numel), layout::part_of_whole({numel}, wanted), numel_each);
}

TEST(SavedRanges, CoverWhatIsWantedInItsOrder) {
  EXPECT_THAT(ranges_of(kPieces, {0, 292}, 1), ElementsAre(SavedRange{1, 0, 128, 0, 128}, SavedRange{2, 0, 64, 128, 64},
                                                           SavedRange{5, 0, 100, 192, 100}));
  EXPECT_THAT(ranges_of(kPieces, {100, 200}, 1),
              ElementsAre(SavedRange{1, 100, 28, 0, 128}, SavedRange{2, 0, 64, 28, 64}, SavedRange{5, 0, 8, 92, 100}));
  EXPECT_THAT(ranges_of(kPieces, {130, 140}, 1), ElementsAre(SavedRange{2, 2, 10, 0, 64}));
  EXPECT_THAT(ranges_of(kPieces, {292, 292}, 1), IsEmpty());
  EXPECT_THAT(ranges_of({}, {0, 0}, 1), IsEmpty());
}

// One element of the scales for 64 of the parameter's; the last one may be for fewer.
TEST(SavedRanges, OfScalesCountBlocks) {
  EXPECT_THAT(ranges_of(kPieces, {64, 292}, 64),
              ElementsAre(SavedRange{1, 1, 1, 0, 2}, SavedRange{2, 0, 1, 1, 1}, SavedRange{5, 0, 2, 2, 2}));
  EXPECT_THAT(ranges_of(kPieces, {192, 210}, 64), ElementsAre(SavedRange{5, 0, 1, 0, 2}));
}

TEST(SavedRanges, OfPiecesThatCutABlockOrEndEarlyAreErrors) {
  EXPECT_THROW(ranges_of({{0, 65}, {1, 63}}, {64, 128}, 64), Error);
  EXPECT_THROW(ranges_of(kPieces, {32, 292}, 64), Error);
  EXPECT_THROW(ranges_of(kPieces, {0, 293}, 1, 293), Error);
  EXPECT_THROW(ranges_of({}, {0, 1}, 1), Error);
}

// Half of the columns each of a matrix of 10 rows, after 64 elements of another part of it in the first file.
TEST(SavedRanges, OfColumnsAreRunsFromRowToRow) {
  const std::vector<int64_t> shape = {11, 256};
  const std::vector<Manifest::Part> parts = {
      {.file = 0, .offset = 256, .placement = layout::all_of_box(shape, {{0, 10}, {0, 128}})},
      {.file = 1, .placement = layout::all_of_box(shape, {{0, 10}, {128, 256}})},
      {.file = 0, .placement = layout::all_of_box(shape, {{10, 11}, {0, 256}})}};
  EXPECT_THAT(
      saved_ranges(parts, layout::all_of_box(shape, {{2, 7}, {0, 256}}), 1),
      ElementsAre(SavedRange{0, 512, 128, 0, 1536, 5, 128, 256}, SavedRange{1, 256, 128, 128, 1280, 5, 128, 256}));
  EXPECT_THAT(saved_ranges(parts, layout::all_of_box(shape, {{2, 7}, {0, 256}}), 64),
              ElementsAre(SavedRange{0, 8, 2, 0, 24, 5, 2, 4}, SavedRange{1, 4, 2, 2, 20, 5, 2, 4}));
  EXPECT_THROW(saved_ranges(parts, layout::all_of_box(shape, {{2, 7}, {0, 100}}), 64), Error);
}

}  // namespace
}  // namespace fsdp::checkpoint
