#include "layout/unit_layout.h"

#include <algorithm>

#include "base/checked.h"

namespace fsdp::layout {

Range intersect(Range a, Range b) {
  Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? both : Range{};
}

UnitLayout::UnitLayout(std::vector<int64_t> numels, int ranks, int shards)
    : numels_(std::move(numels)), ranks_(ranks), shards_(shards) {
  FSDP_CHECK(ranks > 0, "a unit is divided among {} ranks, expected at least 1", ranks);
  FSDP_CHECK(shards > 0 && ranks % shards == 0, "{} ranks share a unit in groups of {}, expected a divisor of {}",
             ranks, shards, ranks);
  int64_t end = 0;
  for (int64_t numel : numels_) {
    FSDP_CHECK(numel >= 0, "a parameter has {} elements, expected none or more", numel);
    offsets_.push_back(end);
    end = round_up(checked_add(end, numel), kAlignmentNumel);
  }
  slice_numel_ = round_up(end / ranks + (end % ranks != 0), kAlignmentNumel);
  checked_mul(slice_numel_, ranks);
}

Range UnitLayout::shard_of(int rank) const {
  const int64_t begin = shard_index(rank) * shard_numel();
  return {begin, begin + shard_numel()};
}

Range UnitLayout::slice_of(int rank) const {
  const int64_t begin = shard_of(rank).begin + group_index(rank) * slice_numel_;
  return {begin, begin + slice_numel_};
}

Range UnitLayout::part_of(size_t parameter, Range range) const {
  const Range part = intersect({offsets_[parameter], offsets_[parameter] + numels_[parameter]}, range);
  return part.numel() == 0 ? Range{} : Range{part.begin - range.begin, part.end - range.begin};
}

Range UnitLayout::piece_of(size_t parameter, int rank) const { return part_of(parameter, shard_of(rank)); }

Range UnitLayout::segment_of(size_t parameter, int rank) const { return part_of(parameter, slice_of(rank)); }

int64_t UnitLayout::piece_offset_of(size_t parameter, int rank) const {
  const Range piece = piece_of(parameter, rank);
  return piece.numel() == 0 ? 0 : shard_of(rank).begin + piece.begin - offsets_[parameter];
}

}  // namespace fsdp::layout
