// Which elements of the whole model's parameters a piece of this rank has. Pure arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/whole_model.h"
#include "layout/placement.h"

namespace fsdp::checkpoint {

using Box = std::vector<layout::Range>;

// Elements of a piece that lie in one box of the whole parameter.
struct Segment {
  layout::Placement placement;
  int64_t at = 0;  // of the first one, in the piece
  bool operator==(const Segment&) const = default;
};

// The parameter's name, shape and strides in the whole model. `name` and `shape` are those in the part of it.
std::string name_in_whole(const engine::WholeModel& whole, const std::string& name);
std::vector<int64_t> whole_shape(const engine::WholeModel& whole, const std::string& name,
                                 const std::vector<int64_t>& shape);
std::vector<int64_t> strides_of_rows(const std::vector<int64_t>& shape);

// The segments of elements `range` of the model's parameter, in their order. None of them is empty.
std::vector<Segment> segments_of(const engine::WholeModel& whole, const std::string& name,
                                 const std::vector<int64_t>& shape, layout::Range range);

// The elements of the segment that lie in none of the boxes. Throws Error where a box cuts the segment's own along
// another dimension than the first: then its elements do not follow each other.
std::vector<Segment> outside(const Segment& segment, const std::vector<Box>& boxes);

}  // namespace fsdp::checkpoint
