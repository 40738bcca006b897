#include "data/data_order.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace data {
namespace {

constexpr int64_t kContext = 16;
constexpr int64_t kTokens = 37 * kContext + 5;

// The windows of a step, micro-batch by micro-batch, in the job's global order.
std::vector<std::vector<int64_t>> global_order(const StepShape& shape, int64_t step) {
  const DataOrder order(kTokens, kContext, 7);
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
  const DataOrder order(kTokens, kContext, 7);
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
  const DataOrder from_the_start(kTokens, kContext, 7), resumed(kTokens, kContext, 7);
  std::vector<int64_t> last;
  for (int64_t step = 0; step <= 20; ++step) last = from_the_start.window_starts(shape, step, 0, 0);
  EXPECT_EQ(resumed.window_starts(shape, 20, 0, 0), last);
}

TEST(DataOrder, LastWindowEndsInTheData) {
  for (int64_t tokens = kContext + 1; tokens < 4 * kContext; ++tokens) {
    const DataOrder order(tokens, kContext, 1);
    ASSERT_GE(order.windows(), 1);
    EXPECT_LE((order.windows() - 1) * kContext + kContext + 1, tokens);
  }
}

TEST(DataOrder, AnyPlaceOfALargeDataSetCostsNoMemory) {
  const StepShape shape{.ranks = 64, .micro_batches = 4, .batch = 8};
  const DataOrder order(int64_t{10} << 40, 1024, 7);
  const int64_t far = 100'000'000;
  const std::vector<int64_t> starts = order.window_starts(shape, far, 63, 3);
  ASSERT_EQ(starts.size(), 8u);
  for (int64_t start : starts) {
    EXPECT_EQ(start % 1024, 0);
    EXPECT_LT(start / 1024, order.windows());
  }
}

TEST(DataOrder, LastsForItsEpochs) {
  const StepShape shape{.ranks = 2, .micro_batches = 1, .batch = 5};
  EXPECT_EQ(DataOrder(kTokens, kContext, 7).steps(shape), std::nullopt);
  EXPECT_EQ(DataOrder(kTokens, kContext, 7).problem(shape, 1'000'000), "");
  const DataOrder once(kTokens, kContext, 7, 1), thrice(kTokens, kContext, 7, 3);
  EXPECT_EQ(once.steps(shape), 3);     // 37 windows
  EXPECT_EQ(thrice.steps(shape), 11);  // 111 windows
  EXPECT_EQ(thrice.problem(shape, 11), "");
  EXPECT_EQ(
      once.problem(shape, 4),
      "the data lasts 3 steps, and the run has 4: there are 37 windows of context 16, each visited once, and a step "
      "takes 10. Use more data, more epochs or fewer steps.");
  EXPECT_EQ(once.window_starts(shape, 2, 1, 0).size(), 5u);
  EXPECT_THROW(once.window_starts(shape, 3, 0, 0), fsdp::Error);
}

TEST(DataOrder, LastsLongWithManyEpochs) {
  const DataOrder order(int64_t{1} << 40, 1, 7, int64_t{1} << 40);
  const StepShape shape{.ranks = 1024, .micro_batches = 1024, .batch = 1024};
  // (2^40 - 1) windows * 2^40 epochs / 2^30 windows per step
  EXPECT_EQ(order.steps(shape), ((int64_t{1} << 40) - 1) << 10);
}

// Sources of 37 and 11 windows, three of the first for one of the second.
const std::vector<OrderedSource> kSources = {{.first = 0, .tokens = kTokens, .weight = 3},
                                             {.first = kTokens, .tokens = 11 * kContext + 1, .weight = 1}};

std::vector<int64_t> windows_of_sources(int64_t count, const StepShape& shape = {.batch = 1}) {
  const DataOrder order(kSources, kContext, 7);
  std::vector<int64_t> starts;
  for (int64_t step = 0; static_cast<int64_t>(starts.size()) < count; ++step) {
    for (int64_t b = 0; b < shape.micro_batches; ++b) {
      for (int64_t rank = 0; rank < shape.ranks; ++rank) {
        for (int64_t start : order.window_starts(shape, step, rank, b)) starts.push_back(start);
      }
    }
  }
  return starts;
}

TEST(DataOrderOfSources, TakesFromEachByItsWeight) {
  const std::vector<int64_t> starts = windows_of_sources(2 * DataOrder::kCycle);
  int64_t of_second = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] >= kTokens) ++of_second;
    const auto taken = static_cast<int64_t>(i) + 1;
    EXPECT_LE(std::abs(4 * of_second - taken), 4) << "after " << taken;  // as evenly as whole windows can be
  }
  EXPECT_EQ(of_second, 2 * DataOrder::kCycle / 4);
}

TEST(DataOrderOfSources, VisitsEachWindowOfASourceOnceAnEpoch) {
  std::vector<int64_t> second;
  for (int64_t start : windows_of_sources(4 * 33)) {
    if (start >= kTokens) second.push_back(start);
  }
  ASSERT_EQ(second.size(), 33u);
  std::vector<int64_t> expected;
  for (int64_t window = 0; window < 11; ++window) expected.push_back(kTokens + window * kContext);
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    const auto begin = second.begin() + static_cast<std::ptrdiff_t>(11 * epoch);
    EXPECT_THAT(std::vector<int64_t>(begin, begin + 11), testing::UnorderedElementsAreArray(expected));
  }
  const std::vector<double> epochs = DataOrder(kSources, kContext, 7).epochs_of(4 * 33);
  EXPECT_THAT(epochs, testing::ElementsAre(99.0 / 37, 3.0));
}

TEST(DataOrderOfSources, IsTheSameForAnyDivisionOfAStep) {
  const auto expected = windows_of_sources(240, {.ranks = 1, .micro_batches = 4, .batch = 3});
  EXPECT_EQ(windows_of_sources(240, {.ranks = 2, .micro_batches = 2, .batch = 3}), expected);
  EXPECT_EQ(windows_of_sources(240, {.ranks = 4, .micro_batches = 1, .batch = 3}), expected);
}

TEST(DataOrderOfSources, RefusesAWeightThatCountsForNothing) {
  std::vector<OrderedSource> sources = kSources;
  sources[1].weight = 1e-9;
  EXPECT_THROW(DataOrder(sources, kContext, 7), fsdp::Error);
}

}  // namespace
}  // namespace data
