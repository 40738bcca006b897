// Placements make up a tensor where those of each box make up the box, and the boxes the tensor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "layout/placement.h"

namespace fsdp::layout {

namespace {

// A box, and the number of the first placement in it.
struct Numbered {
  const Placement* box;
  size_t number;
};

bool share_elements(const std::vector<Range>& a, const std::vector<Range>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (intersect(a[i], b[i]).numel() == 0) return false;
  }
  return true;
}

// The dimension that most boxes begin at different places of.
size_t most_divided(const std::vector<Numbered>& boxes, size_t dimensions) {
  size_t most = 0, dimension = 0;
  for (size_t i = 0; i < dimensions; ++i) {
    std::set<int64_t> begins;
    for (const Numbered& one : boxes) begins.insert(one.box->box[i].begin);
    if (begins.size() > most) most = begins.size(), dimension = i;
  }
  return dimension;
}

// Two boxes that share an element, the later one first. Goes along one dimension, and compares the boxes that meet
// there: as good as linear where ranks divide one dimension or form a grid.
std::optional<std::pair<size_t, size_t>> overlap_of(std::vector<Numbered> boxes, size_t dimensions) {
  if (boxes.size() < 2) return std::nullopt;
  const size_t along = most_divided(boxes, dimensions);
  std::ranges::sort(boxes, {}, [&](const Numbered& one) { return std::pair(one.box->box[along].begin, one.number); });
  std::vector<Numbered> open;
  for (const Numbered& one : boxes) {
    std::erase_if(open, [&](const Numbered& other) { return other.box->box[along].end <= one.box->box[along].begin; });
    for (const Numbered& other : open) {
      if (!share_elements(one.box->box, other.box->box)) continue;
      return std::pair(std::max(one.number, other.number), std::min(one.number, other.number));
    }
    open.push_back(one);
  }
  return std::nullopt;
}

std::string text_of(const std::vector<Range>& box) {
  std::vector<std::string> ranges;
  for (const Range& range : box) ranges.push_back(fmt::format("{} to {}", range.begin, range.end));
  return fmt::format("[{}]", fmt::join(ranges, ", "));
}

}  // namespace

TilingProblem tiling_problem(const std::vector<int64_t>& shape, const std::vector<const Placement*>& placements) {
  std::vector<Numbered> boxes;
  int64_t numel = 1, next = 0;
  for (const int64_t size : shape) numel *= size;
  const auto ends_early = [&] { return !boxes.empty() && next < boxes.back().box->box_numel(); };
  const auto early_end = [&](size_t placement) {
    const Placement& box = *boxes.back().box;
    return TilingProblem{placement, fmt::format("the next part to begin at element {} of {} in box {}", next,
                                                box.box_numel(), text_of(box.box))};
  };
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement& one = *placements[i];
    if (boxes.empty() || one.box != boxes.back().box->box) {
      if (ends_early()) return early_end(i);
      boxes.push_back({&one, i}), next = 0;
    }
    if (one.range.begin != next) {
      return {i, fmt::format("it to begin at element {} of box {}", next, text_of(one.box))};
    }
    next = one.range.end;
  }
  if (ends_early()) return early_end(placements.size() - 1);
  if (const auto overlap = overlap_of(boxes, shape.size())) {
    return {overlap->first, fmt::format("no elements of part {}", overlap->second)};
  }
  int64_t found = 0;  // of boxes that share nothing, so no more than numel
  for (const Numbered& one : boxes) found += one.box->box_numel();
  const size_t last = placements.empty() ? 0 : placements.size() - 1;
  if (found != numel)
    return {last, fmt::format("parts with the {} elements of its shape; these have {}", numel, found)};
  return {};
}

}  // namespace fsdp::layout
