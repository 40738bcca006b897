#include "checkpoint/saved_ranges.h"

#include "base/error.h"

namespace fsdp::checkpoint {

std::vector<SavedRange> saved_ranges(const std::vector<Manifest::Piece>& pieces, layout::Range wanted,
                                     int64_t numel_each) {
  std::vector<SavedRange> ranges;
  int64_t begin = 0, found = 0;
  for (const auto& [shard, numel] : pieces) {
    const layout::Range piece{begin, begin + numel};
    begin = piece.end;
    const layout::Range both = layout::intersect(piece, wanted);
    if (both.numel() == 0) continue;
    FSDP_CHECK((both.begin - piece.begin) % numel_each == 0 && (both.begin - wanted.begin) % numel_each == 0,
               "the manifest is damaged: a piece begins at element {} of its parameter, expected a multiple of {}",
               both.begin, numel_each);
    ranges.push_back({.shard = shard,
                      .first = (both.begin - piece.begin) / numel_each,
                      .numel = (both.numel() + numel_each - 1) / numel_each,
                      .at = (both.begin - wanted.begin) / numel_each,
                      .whole = (numel + numel_each - 1) / numel_each});
    found += both.numel();
  }
  FSDP_CHECK(found == wanted.numel(), "the manifest is damaged: its pieces have {} of the elements from {} to {}",
             found, wanted.begin, wanted.end);
  return ranges;
}

}  // namespace fsdp::checkpoint
