#include "schedule/unit_counts.h"

#include <gtest/gtest.h>

namespace fsdp::schedule {
namespace {

const UnitCounts kOne = {{.reductions = 1, .lag = 4, .gradients = 2, .changed = 1}, {}};
const UnitCounts kOther = {{.reductions = 1, .lag = 0, .gradients = 3}, {.reductions = 2, .lag = 7}};

TEST(UnitCounts, TheLargestOfEachNumberIsTaken) {
  UnitCounts largest = kOne;
  take_largest(largest, kOther);
  const UnitCounts expected = {{.reductions = 1, .lag = 4, .gradients = 3, .changed = 1}, {.reductions = 2, .lag = 7}};
  EXPECT_EQ(largest, expected);
}

TEST(UnitCounts, AreTheSameAfterPackingAndUnpacking) {
  std::vector<int64_t> words(words_of_counts(kOne.size()));
  pack(kOne, words);
  EXPECT_EQ(unpack(words), kOne);
}

TEST(UnitCounts, AChangedUnitThatNeedsAnotherReductionIsNamed) {
  EXPECT_EQ(changed_too_early(kOne), std::nullopt);
  UnitCounts largest = kOne;
  largest[1] = {.reductions = 2, .changed = 1};
  EXPECT_EQ(changed_too_early(largest), 1);
}

}  // namespace
}  // namespace fsdp::schedule
