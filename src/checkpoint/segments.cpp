#include "checkpoint/segments.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::checkpoint {

namespace {

using layout::Placement;
using layout::Range;

// The elements of `segment` in the rows of a box within its own.
void add_rows(const Segment& segment, Range rows, std::vector<Segment>& all) {
  const Placement& from = segment.placement;
  const int64_t own_rows = from.box[0].numel(), row_numel = own_rows == 0 ? 0 : from.box_numel() / own_rows;
  const Range in_box{(rows.begin - from.box[0].begin) * row_numel, (rows.end - from.box[0].begin) * row_numel};
  const Range common = intersect(in_box, from.range);
  if (common.numel() == 0) return;
  Segment part = segment;
  part.placement.box[0] = rows;
  part.placement.range = {common.begin - in_box.begin, common.end - in_box.begin};
  part.at += common.begin - from.range.begin;
  all.push_back(std::move(part));
}

bool have_common(const Box& a, const Box& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (intersect(a[i], b[i]).numel() == 0) return false;
  }
  return true;
}

bool is_within(const Box& inner, const Box& outer, size_t first_dim) {
  for (size_t i = first_dim; i < inner.size(); ++i) {
    if (inner[i].begin < outer[i].begin || inner[i].end > outer[i].end) return false;
  }
  return true;
}

void add_outside(const Segment& segment, const Box& box, std::vector<Segment>& all) {
  const Box& own = segment.placement.box;
  if (!have_common(own, box)) {
    all.push_back(segment);
  } else if (!is_within(own, box, 0)) {
    FSDP_CHECK(is_within(own, box, 1),
               "two ranks hold boxes of a parameter of shape {} that overlap along another dimension than the first. "
               "Let DividedModule::divisions() have ranges that are equal or apart.",
               segment.placement.shape);
    if (own[0].begin < box[0].begin) add_rows(segment, {own[0].begin, box[0].begin}, all);
    if (box[0].end < own[0].end) add_rows(segment, {box[0].end, own[0].end}, all);
  }
}

}  // namespace

std::string name_in_whole(const engine::WholeModel& whole, const std::string& name) {
  const auto first = whole.first_names.find(name);
  return first == whole.first_names.end() ? name : first->second;
}

std::vector<int64_t> whole_shape(const engine::WholeModel& whole, const std::string& name,
                                 const std::vector<int64_t>& shape) {
  const auto division = whole.divisions.find(name);
  return division == whole.divisions.end() ? shape : division->second.shape;
}

std::vector<int64_t> strides_of_rows(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<Segment> segments_of(const engine::WholeModel& whole, const std::string& name,
                                 const std::vector<int64_t>& shape, Range range) {
  std::vector<Segment> segments;
  if (range.numel() == 0) return segments;
  const auto division = whole.divisions.find(name);
  if (division == whole.divisions.end()) return {{.placement = layout::part_of_whole(shape, range)}};
  const auto& [whole_shape, dim, ranges] = division->second;
  int64_t begin = 0;  // of a box, within the model's parameter
  for (const Range& of_dim : ranges) {
    Placement box = layout::part_of_whole(whole_shape, {});
    box.box[dim] = of_dim;
    const Range in_parameter{begin, begin + box.box_numel()};
    const Range common = intersect(in_parameter, range);
    begin = in_parameter.end;
    if (common.numel() == 0) continue;
    box.range = {common.begin - in_parameter.begin, common.end - in_parameter.begin};
    segments.push_back({.placement = std::move(box), .at = common.begin - range.begin});
  }
  return segments;
}

std::vector<Segment> outside(const Segment& segment, const std::vector<Box>& boxes) {
  std::vector<Segment> left{segment};
  for (const Box& box : boxes) {
    std::vector<Segment> next;
    for (const Segment& one : left) add_outside(one, box, next);
    left = std::move(next);
  }
  return left;
}

}  // namespace fsdp::checkpoint
