#include "layout/placement.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <utility>

namespace fsdp::layout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The numbers of a placement's elements in the whole tensor, one by one.
std::vector<int64_t> elements_of(const Placement& placement) {
  int64_t numel = 1;
  for (const int64_t size : placement.shape) numel *= size;
  std::vector<int64_t> in_box;
  for (int64_t element = 0; element < numel; ++element) {
    bool is_inside = true;
    int64_t rest = element;
    for (size_t i = placement.shape.size(); i-- > 0; rest /= placement.shape[i]) {
      const int64_t index = rest % placement.shape[i];
      is_inside = is_inside && index >= placement.box[i].begin && index < placement.box[i].end;
    }
    if (is_inside) in_box.push_back(element);
  }
  return {in_box.begin() + placement.range.begin, in_box.begin() + placement.range.end};
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Pairs pairs_of(const std::vector<CommonRuns>& all) {
  Pairs pairs;
  for (const CommonRuns& runs : all) {
    for (int64_t run = 0; run < runs.count; ++run) {
      for (int64_t i = 0; i < runs.numel; ++i) {
        pairs.emplace_back(runs.a + run * runs.step_a + i, runs.b + run * runs.step_b + i);
      }
    }
  }
  return pairs;
}

Pairs expected_pairs(const Placement& a, const Placement& b) {
  const std::vector<int64_t> of_a = elements_of(a), of_b = elements_of(b);
  Pairs pairs;
  for (size_t i = 0; i < of_a.size(); ++i) {
    const auto found = std::ranges::lower_bound(of_b, of_a[i]);
    if (found != of_b.end() && *found == of_a[i]) pairs.emplace_back(i, found - of_b.begin());
  }
  return pairs;
}

class Random {
 public:
  int64_t below(int64_t limit) { return static_cast<int64_t>(generator_() % static_cast<uint64_t>(limit)); }
  Range range(int64_t size) {
    const int64_t a = below(size + 1), b = below(size + 1);
    return below(3) == 0 ? Range{0, size} : Range{std::min(a, b), std::max(a, b)};
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> shape(static_cast<size_t>(below(5)));
    for (int64_t& size : shape) size = 1 + below(6);
    return shape;
  }
  Placement placement(const std::vector<int64_t>& shape) {
    std::vector<Range> box;
    for (const int64_t size : shape) box.push_back(range(size));
    Placement placement = all_of_box(shape, box);
    placement.range = range(placement.box_numel());
    return placement;
  }

 private:
  std::mt19937 generator_{7};
};

TEST(Placement, HasInCommonWithAnotherWhatTheirElementsSay) {
  Random random;
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<int64_t> shape = random.shape();
    const Placement a = random.placement(shape), b = random.placement(shape);
    ASSERT_EQ(pairs_of(common_runs(a, b)), expected_pairs(a, b)) << i;
  }
}

TEST(Placement, OfWholeTensorsMeetInOneRun) {
  EXPECT_THAT(common_runs(part_of_whole({4, 100}, {128, 256}), part_of_whole({4, 100}, {192, 400})),
              ElementsAre(CommonRuns{.a = 64, .b = 0, .numel = 64}));
  EXPECT_THAT(common_runs(part_of_whole({4, 100}, {0, 128}), part_of_whole({4, 100}, {128, 400})), IsEmpty());
  EXPECT_THAT(common_runs(part_of_whole({}, {0, 1}), part_of_whole({}, {0, 1})), ElementsAre(CommonRuns{0, 0, 1}));
  EXPECT_THAT(common_runs(part_of_whole({4}, {0, 4}), part_of_whole({5}, {0, 5})), IsEmpty());
}

// Rows of a box are one run; columns take one entry for all whole rows, and one for each row that a range cuts.
TEST(Placement, NeedsFewEntriesForAMatrixOfManyRows) {
  const std::vector<int64_t> shape = {1'000'000, 4096};
  const Placement whole = part_of_whole(shape, {0, 4'096'000'000});
  EXPECT_THAT(common_runs(all_of_box(shape, {{1000, 3000}, {0, 4096}}), whole),
              ElementsAre(CommonRuns{.a = 0, .b = 4'096'000, .numel = 8'192'000}));
  Placement columns = all_of_box(shape, {{0, 1'000'000}, {1024, 2048}});
  EXPECT_THAT(
      common_runs(columns, whole),
      ElementsAre(CommonRuns{.a = 0, .b = 1024, .numel = 1024, .count = 1'000'000, .step_a = 1024, .step_b = 4096}));
  columns.range = {64, 1'023'999'936};
  EXPECT_EQ(common_runs(columns, whole).size(), 3);
}

TEST(Placement, OfTheFirstRowsHasItsFirstElements) {
  Random random;
  for (int i = 0; i < 5'000; ++i) {
    std::vector<int64_t> shape = random.shape();
    if (shape.empty()) continue;
    const Placement placement = random.placement(shape);
    const int64_t rows = random.below(shape[0] + 2);
    const Placement first = first_rows(placement, rows);
    std::vector<int64_t> expected;
    const int64_t row = [&] {
      int64_t numel = 1;
      for (size_t k = 1; k < shape.size(); ++k) numel *= shape[k];
      return numel;
    }();
    for (const int64_t element : elements_of(placement)) {
      if (element < rows * row) expected.push_back(element);
    }
    ASSERT_EQ(elements_of(first), expected) << i;
    ASSERT_EQ(first.numel(), static_cast<int64_t>(expected.size()));
  }
}

std::string problem_of(const std::vector<int64_t>& shape, const std::vector<Placement>& placements) {
  std::vector<const Placement*> all;
  for (const Placement& one : placements) all.push_back(&one);
  const TilingProblem problem = tiling_problem(shape, all);
  return problem.expected.empty() ? "" : std::to_string(problem.placement) + ": " + problem.expected;
}

Placement in_box(std::vector<int64_t> shape, std::vector<Range> box, Range range) {
  return {.shape = std::move(shape), .box = std::move(box), .range = range};
}

TEST(Tiling, TakesRangesAndBoxesThatMakeUpTheTensor) {
  EXPECT_EQ(problem_of({4, 6}, {part_of_whole({4, 6}, {0, 10}), part_of_whole({4, 6}, {10, 24})}), "");
  EXPECT_EQ(problem_of({4, 6}, {in_box({4, 6}, {{0, 4}, {3, 6}}, {0, 5}), in_box({4, 6}, {{0, 4}, {3, 6}}, {5, 12}),
                                all_of_box({4, 6}, {{0, 4}, {0, 3}})}),
            "");
  EXPECT_EQ(problem_of({0, 6}, {}), "");
  EXPECT_EQ(problem_of({}, {part_of_whole({}, {0, 1})}), "");
}

TEST(Tiling, SaysWhichPartIsAtFault) {
  const std::vector<int64_t> shape = {4, 6};
  EXPECT_EQ(problem_of(shape, {part_of_whole(shape, {0, 10}), part_of_whole(shape, {11, 24})}),
            "1: it to begin at element 10 of box [0 to 4, 0 to 6]");
  EXPECT_EQ(problem_of(shape, {part_of_whole(shape, {0, 10})}),
            "0: the next part to begin at element 10 of 24 in box [0 to 4, 0 to 6]");
  EXPECT_EQ(problem_of(shape, {all_of_box(shape, {{0, 4}, {0, 3}}), all_of_box(shape, {{0, 4}, {2, 6}})}),
            "1: no elements of part 0");
  EXPECT_EQ(problem_of(shape, {all_of_box(shape, {{0, 4}, {0, 3}}), all_of_box(shape, {{0, 4}, {4, 6}})}),
            "1: parts with the 24 elements of its shape; these have 20");
  EXPECT_EQ(problem_of(shape, {}), "0: parts with the 24 elements of its shape; these have 0");
}

// Cuts boxes in two again and again, then takes one away, or puts one twice.
TEST(Tiling, OfBoxesThatWereCutAtRandomIsWholeAndNoOtherIs) {
  Random random;
  for (int i = 0; i < 2'000; ++i) {
    const std::vector<int64_t> shape = {1 + random.below(6), 1 + random.below(6), 1 + random.below(6)};
    std::vector<std::vector<Range>> boxes = {part_of_whole(shape, {}).box};
    for (int cuts = 0; cuts < 8; ++cuts) {
      const auto chosen = static_cast<size_t>(random.below(static_cast<int64_t>(boxes.size())));
      const auto along = static_cast<size_t>(random.below(3));
      const Range range = boxes[chosen][along];
      if (range.numel() < 2) continue;
      const int64_t at = range.begin + 1 + random.below(range.numel() - 1);
      boxes.push_back(boxes[chosen]);
      boxes[chosen][along].end = boxes.back()[along].begin = at;
    }
    std::vector<Placement> placements;
    for (const auto& box : boxes) placements.push_back(all_of_box(shape, box));
    ASSERT_EQ(problem_of(shape, placements), "") << i;
    const auto chosen = random.below(static_cast<int64_t>(boxes.size()));
    std::vector<Placement> fewer = placements, more = placements;
    fewer.erase(fewer.begin() + chosen);
    ASSERT_THAT(problem_of(shape, fewer), HasSubstr("these have")) << i;
    more.insert(more.begin(), placements[static_cast<size_t>(chosen)]);
    if (chosen > 0) ASSERT_THAT(problem_of(shape, more), HasSubstr("no elements of part 0")) << i;
  }
}

}  // namespace
}  // namespace fsdp::layout
