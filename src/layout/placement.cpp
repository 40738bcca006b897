#include "layout/placement.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace fsdp::layout {

namespace {

int64_t numel_of_box(const std::vector<Range>& box) {
  int64_t numel = 1;
  for (const Range& range : box) numel = checked_mul(numel, range.numel());
  return numel;
}

// Elements of the box from one index of each dimension to the next.
std::vector<int64_t> strides_of(const std::vector<Range>& box) {
  std::vector<int64_t> strides(box.size(), 1);
  for (size_t i = box.size(); i-- > 1;) strides[i - 1] = strides[i] * box[i].numel();
  return strides;
}

// The rows of the box that two boxes share. A row is as long as both boxes have its elements one after the other.
class CommonRows {
 public:
  CommonRows(const Placement& a, const Placement& b) : a_(a), b_(b) {
    for (size_t i = 0; i < a.box.size(); ++i) common_.push_back(intersect(a.box[i], b.box[i]));
    if (numel_of_box(common_) == 0) return;
    strides_a_ = strides_of(a.box), strides_b_ = strides_of(b.box);
    numel_ = 1;
    outer_ = common_.size();
    for (bool fill_both = true; outer_ > 0 && fill_both;) {
      --outer_;
      fill_both = common_[outer_] == a.box[outer_] && common_[outer_] == b.box[outer_];
      numel_ *= common_[outer_].numel();
    }
    rows_ = 1;
    for (size_t i = 0; i < outer_; ++i) rows_ *= common_[i].numel();
  }

  int64_t rows() const { return rows_; }
  // Rows that begin equally far apart in both boxes, one after the other.
  int64_t even_rows() const { return outer_ == 0 ? 1 : common_[outer_ - 1].numel(); }
  int64_t step_a() const { return outer_ == 0 ? 0 : strides_a_[outer_ - 1]; }
  int64_t step_b() const { return outer_ == 0 ? 0 : strides_b_[outer_ - 1]; }

  // The elements of a row that both ranges have; `numel` is 0 where there are none.
  CommonRuns clipped(int64_t row) const {
    const auto [a, b] = begin_of(row);
    const int64_t first = std::max({int64_t{0}, a_.range.begin - a, b_.range.begin - b});
    const int64_t last = std::min({numel_, a_.range.end - a, b_.range.end - b});
    return {
        .a = a + first - a_.range.begin, .b = b + first - b_.range.begin, .numel = std::max<int64_t>(last - first, 0)};
  }
  bool is_whole(int64_t row) const { return clipped(row).numel == numel_; }
  // The first row that ends behind both ranges' beginnings; rows() if there is none.
  int64_t first_row() const {
    return first_row_where(
        [&](int64_t a, int64_t b) { return a + numel_ > a_.range.begin && b + numel_ > b_.range.begin; });
  }
  // The first row that begins at the end of a range, or behind it.
  int64_t end_row() const {
    return first_row_where([&](int64_t a, int64_t b) { return a >= a_.range.end || b >= b_.range.end; });
  }

 private:
  // A row's first element in both boxes. Both ascend with the row.
  std::pair<int64_t, int64_t> begin_of(int64_t row) const {
    int64_t a = 0, b = 0;
    for (size_t i = common_.size(); i-- > 0;) {
      const int64_t index = i < outer_ ? row % common_[i].numel() : 0;
      if (i < outer_) row /= common_[i].numel();
      a += (common_[i].begin + index - a_.box[i].begin) * strides_a_[i];
      b += (common_[i].begin + index - b_.box[i].begin) * strides_b_[i];
    }
    return {a, b};
  }
  template <typename Condition>
  int64_t first_row_where(const Condition& holds) const {
    int64_t low = 0, high = rows_;
    while (low < high) {
      const int64_t row = low + (high - low) / 2;
      const auto [a, b] = begin_of(row);
      holds(a, b) ? high = row : low = row + 1;
    }
    return low;
  }

  const Placement& a_;
  const Placement& b_;
  std::vector<Range> common_;
  std::vector<int64_t> strides_a_, strides_b_;
  size_t outer_ = 0;  // dimensions that number the rows
  int64_t numel_ = 0;
  int64_t rows_ = 0;
};

}  // namespace

int64_t Placement::box_numel() const { return numel_of_box(box); }

bool Placement::is_whole_box() const {
  return std::ranges::equal(shape, box, [](int64_t size, const Range& range) { return range == Range{0, size}; });
}

Placement part_of_whole(std::vector<int64_t> shape, Range range) {
  std::vector<Range> box;
  for (const int64_t size : shape) box.push_back({0, size});
  return {.shape = std::move(shape), .box = std::move(box), .range = range};
}

Placement all_of_box(std::vector<int64_t> shape, std::vector<Range> box) {
  const Range all{0, numel_of_box(box)};
  return {.shape = std::move(shape), .box = std::move(box), .range = all};
}

Placement first_rows(const Placement& placement, int64_t rows) {
  Placement first = placement;
  first.shape[0] = std::min(first.shape[0], rows);
  first.box[0].end = std::min(first.box[0].end, rows);
  first.box[0].begin = std::min(first.box[0].begin, first.box[0].end);
  const int64_t numel = first.box_numel();
  first.range = {std::min(placement.range.begin, numel), std::min(placement.range.end, numel)};
  return first;
}

std::vector<CommonRuns> common_runs(const Placement& a, const Placement& b) {
  std::vector<CommonRuns> all;
  if (a.shape != b.shape) return all;
  const CommonRows rows(a, b);
  const int64_t end = rows.end_row();
  for (int64_t row = rows.first_row(); row < end;) {
    CommonRuns runs = rows.clipped(row);
    // Only the first and the last row are cut by a range; those between are whole.
    const int64_t last_even = std::min(end, (row / rows.even_rows() + 1) * rows.even_rows()) - 1;
    if (last_even > row && rows.is_whole(row)) {
      runs.count = last_even - row + (rows.is_whole(last_even) ? 1 : 0);
      if (runs.count > 1) runs.step_a = rows.step_a(), runs.step_b = rows.step_b();
    }
    if (runs.numel > 0) all.push_back(runs);
    row += runs.count;
  }
  return all;
}

}  // namespace fsdp::layout
