// Where a unit's gradients lie while they are completed, reduced and summed: as the parameters lie in the unit, without
// parameters that need no gradient.
//
// Which rank owns and which adds up an element is as in the unit. So a few trainable parameters among many frozen ones
// cost what they are, and no more. Shards and slices differ in length between ranks; each starts at a multiple of
// kAlignmentNumel. Offsets and lengths are in elements. Pure arithmetic: immutable once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layout/unit_layout.h"

namespace fsdp::layout {

class GradientLayout {
 public:
  // `wanted[i]` is whether parameter i of the unit wants a gradient.
  GradientLayout(const UnitLayout& unit, std::vector<uint8_t> wanted);

  const std::vector<uint8_t>& wanted() const { return wanted_; }
  size_t parameters() const { return wanted_.size(); }
  int64_t full_numel() const { return full_numel_; }
  int64_t offset_of(size_t parameter) const { return offsets_[parameter]; }  // within the full buffer, where wanted
  Range shard_of(int rank) const { return shards_[rank]; }                   // within the full buffer
  Range slice_of(int rank) const { return slices_[rank]; }                   // within the full buffer
  // Within the rank's shard and slice; empty for a parameter that is not wanted, or not there.
  Range piece_of(size_t parameter, int rank) const;
  Range segment_of(size_t parameter, int rank) const;

 private:
  // Where an offset within the unit comes to lie.
  int64_t position_of(int64_t unit_offset) const;
  Range moved(size_t parameter, Range unit_range, Range range) const;

  UnitLayout unit_;
  std::vector<uint8_t> wanted_;
  std::vector<int64_t> offsets_;
  int64_t full_numel_ = 0;
  std::vector<Range> shards_;
  std::vector<Range> slices_;
};

}  // namespace fsdp::layout
