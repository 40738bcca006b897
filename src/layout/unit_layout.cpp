#include "layout/unit_layout.h"

#include <algorithm>

#include "base/checked.h"

namespace fsdp::layout {

Range intersect(Range a, Range b) {
  Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? both : Range{};
}

UnitLayout::UnitLayout(std::vector<int64_t> numels, int ranks) : numels_(std::move(numels)), ranks_(ranks) {
  FSDP_CHECK(ranks > 0, "a unit is divided among {} ranks, expected at least 1", ranks);
  int64_t end = 0;
  for (int64_t numel : numels_) {
    FSDP_CHECK(numel >= 0, "a parameter has {} elements, expected none or more", numel);
    offsets_.push_back(end);
    end = round_up(checked_add(end, numel), kAlignmentNumel);
  }
  shard_numel_ = round_up(end / ranks + (end % ranks != 0), kAlignmentNumel);
  checked_mul(shard_numel_, ranks);
}

Range UnitLayout::owned_of(size_t parameter, int rank) const {
  return intersect({offsets_[parameter], offsets_[parameter] + numels_[parameter]}, shard_of(rank));
}

Range UnitLayout::piece_of(size_t parameter, int rank) const {
  Range owned = owned_of(parameter, rank);
  if (owned.numel() == 0) return {};
  int64_t start = shard_of(rank).begin;
  return {owned.begin - start, owned.end - start};
}

int64_t UnitLayout::piece_offset_of(size_t parameter, int rank) const {
  Range owned = owned_of(parameter, rank);
  return owned.numel() == 0 ? 0 : owned.begin - offsets_[parameter];
}

}  // namespace fsdp::layout
