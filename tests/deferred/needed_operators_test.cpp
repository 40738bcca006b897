#include "deferred/needed_operators.h"

#include <gmock/gmock.h>

namespace fsdp::deferred {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RecordedOperator on(std::vector<int> reads, std::vector<int> writes, std::vector<int> replaces = {}) {
  const auto any = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "Tensor");
  return {.operation = any, .reads = std::move(reads), .writes = std::move(writes), .replaces = std::move(replaces)};
}

TEST(NeededOperators, AreThoseThatAStorageFollowsFrom) {
  const std::vector<RecordedOperator> operators{on({}, {0}, {0}), on({}, {1}, {1}), on({0}, {2}, {2}), on({2}, {2}),
                                                on({1}, {1})};
  EXPECT_THAT(needed_operators(operators, {2}, 5), ElementsAre(0, 2, 3));
  EXPECT_THAT(needed_operators(operators, {2}, 3), ElementsAre(0, 2));
  EXPECT_THAT(needed_operators(operators, {1}, 5), ElementsAre(1, 4));
  EXPECT_THAT(needed_operators(operators, {1, 2}, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(needed_operators(operators, {3}, 5), IsEmpty());
}

TEST(NeededOperators, AreNotThoseWhoseResultIsWrittenOver) {
  const std::vector<RecordedOperator> operators{on({}, {0}, {0}), on({0}, {0}), on({}, {0}, {0}), on({0}, {0})};
  EXPECT_THAT(needed_operators(operators, {0}, 4), ElementsAre(2, 3));
  EXPECT_THAT(needed_operators(operators, {0}, 2), ElementsAre(0, 1));
}

}  // namespace
}  // namespace fsdp::deferred
