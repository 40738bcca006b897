#include "layout/gradient_layout.h"

#include <algorithm>

#include "base/checked.h"

namespace fsdp::layout {

GradientLayout::GradientLayout(const UnitLayout& unit, std::vector<uint8_t> wanted)
    : unit_(unit), wanted_(std::move(wanted)) {
  FSDP_INVARIANT(wanted_.size() == unit.parameters(), "{} flags for {} parameters", wanted_.size(), unit.parameters());
  for (size_t i = 0; i < wanted_.size(); ++i) {
    offsets_.push_back(full_numel_);
    if (wanted_[i]) full_numel_ += round_up(unit.numel_of(i), kAlignmentNumel);
  }
  auto move = [&](Range range) { return Range{position_of(range.begin), position_of(range.end)}; };
  for (int rank = 0; rank < unit.ranks(); ++rank) {
    shards_.push_back(move(unit.shard_of(rank)));
    slices_.push_back(move(unit.slice_of(rank)));
  }
}

int64_t GradientLayout::position_of(int64_t unit_offset) const {
  int64_t position = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const int64_t padded = round_up(unit_.numel_of(i), kAlignmentNumel);
    if (wanted_[i]) position += std::clamp<int64_t>(unit_offset - unit_.offset_of(i), 0, padded);
  }
  return position;
}

// The part of the parameter that `unit_range` of the unit holds, within `range`, which is where it lies here.
Range GradientLayout::moved(size_t parameter, Range unit_range, Range range) const {
  const int64_t begin = unit_.offset_of(parameter);
  const Range part = intersect({begin, begin + unit_.numel_of(parameter)}, unit_range);
  if (!wanted_[parameter] || part.numel() == 0) return {};
  const int64_t start = offsets_[parameter] + part.begin - begin - range.begin;
  return {start, start + part.numel()};
}

Range GradientLayout::piece_of(size_t parameter, int rank) const {
  return moved(parameter, unit_.shard_of(rank), shards_[rank]);
}

Range GradientLayout::segment_of(size_t parameter, int rank) const {
  return moved(parameter, unit_.slice_of(rank), slices_[rank]);
}

}  // namespace fsdp::layout
