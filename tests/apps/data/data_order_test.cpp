#include "data/data_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trainer {
namespace {

constexpr int64_t kContext = 16;
constexpr int64_t kBytes = 37 * kContext + 5;

// The windows of a step, micro-batch by micro-batch, in the job's global order.
std::vector<std::vector<int64_t>> global_order(const StepShape& shape, int64_t step) {
  DataOrder order(kBytes, kContext, 7);
  std::vector<std::vector<int64_t>> result;
  for (int64_t b = 0; b < shape.micro_batches; ++b) {
    for (int64_t rank = 0; rank < shape.ranks; ++rank) result.push_back(order.window_starts(shape, step, rank, b));
  }
  return result;
}

TEST(DataOrder, IsTheSameForAnyDivisionOfAStep) {
  for (int64_t step = 0; step < 12; ++step) {
    const auto one_rank = global_order({.ranks = 1, .micro_batches = 4, .batch = 3}, step);
    EXPECT_EQ(global_order({.ranks = 2, .micro_batches = 2, .batch = 3}, step), one_rank);
    EXPECT_EQ(global_order({.ranks = 4, .micro_batches = 1, .batch = 3}, step), one_rank);
  }
}

TEST(DataOrder, VisitsEachWindowOnceAnEpoch) {
  const StepShape shape{.batch = 1};
  DataOrder order(kBytes, kContext, 7);
  ASSERT_EQ(order.windows(), 37);
  std::vector<int64_t> expected;
  for (int64_t window = 0; window < 37; ++window) expected.push_back(window * kContext);
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t step = 0; step < 74; ++step) {
    epochs[static_cast<size_t>(step / 37)].push_back(order.window_starts(shape, step, 0, 0)[0]);
  }
  EXPECT_THAT(epochs[0], testing::UnorderedElementsAreArray(expected));
  EXPECT_THAT(epochs[1], testing::UnorderedElementsAreArray(expected));
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(DataOrder, DependsOnTheStepAlone) {
  const StepShape shape{.batch = 5};
  DataOrder from_the_start(kBytes, kContext, 7), resumed(kBytes, kContext, 7);
  std::vector<int64_t> last;
  for (int64_t step = 0; step <= 20; ++step) last = from_the_start.window_starts(shape, step, 0, 0);
  EXPECT_EQ(resumed.window_starts(shape, 20, 0, 0), last);
}

TEST(DataOrder, LastWindowEndsInTheText) {
  for (int64_t bytes = kContext + 1; bytes < 4 * kContext; ++bytes) {
    DataOrder order(bytes, kContext, 1);
    ASSERT_GE(order.windows(), 1);
    EXPECT_LE((order.windows() - 1) * kContext + kContext + 1, bytes);
  }
}

// Written down, so that another machine, compiler or version of ours that shuffles differently is noticed.
TEST(Shuffled, IsTheSameEverywhere) {
  EXPECT_EQ(shuffled(8, 1, 0), shuffled(8, 1, 0));
  EXPECT_NE(shuffled(8, 1, 0), shuffled(8, 1, 1));
  EXPECT_NE(shuffled(8, 1, 0), shuffled(8, 2, 0));
  EXPECT_THAT(shuffled(8, 1, 0), testing::ElementsAre(0, 5, 2, 7, 3, 4, 1, 6));
}

TEST(Shuffled, SmallCounts) {
  EXPECT_TRUE(shuffled(0, 1, 0).empty());
  EXPECT_THAT(shuffled(1, 1, 0), testing::ElementsAre(0));
}

}  // namespace
}  // namespace trainer
