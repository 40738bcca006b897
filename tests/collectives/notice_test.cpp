// What ranks tell each other, and where two histories differ.
#include "collectives/notice.h"

#include <gtest/gtest.h>

namespace fsdp::collectives {
namespace {

using Operations = std::deque<std::string>;

History history_of(const Operations& operations) {
  History history;
  for (const std::string& operation : operations) history.add(operation);
  return history;
}

TEST(Notice, ARankThatIsBehindDoesNotDiffer) {
  EXPECT_EQ(first_difference(history_of({"a", "b", "c"}), history_of({"a", "b"})), std::nullopt);
  EXPECT_EQ(first_difference(history_of({}), history_of({"a"})), std::nullopt);
}

TEST(Notice, TheFirstDifferenceIsFound) {
  EXPECT_EQ(first_difference(history_of({"a", "b", "c"}), history_of({"a", "c", "b", "d"})), 2);
  EXPECT_EQ(first_difference(history_of({"a"}), history_of({"b"})), 1);
}

TEST(Notice, AHistoryKeepsTheLatestUnderTheirNumbers) {
  History all, behind;
  for (size_t i = 1; i <= 3 * History::kKept; ++i) {
    all.add(std::to_string(i));
    if (i <= 2 * History::kKept + 5) behind.add(std::to_string(i));
  }
  EXPECT_EQ(all.operations().size(), History::kKept);
  EXPECT_EQ(all.first(), 2 * static_cast<int64_t>(History::kKept) + 1);
  EXPECT_EQ(all.operation(all.first()), std::to_string(all.first()));
  EXPECT_EQ(first_difference(all, behind), std::nullopt);
  behind.add("another");
  EXPECT_EQ(first_difference(all, behind), 2 * static_cast<int64_t>(History::kKept) + 6);
}

TEST(Notice, HistoriesWithNothingInCommonDoNotDiffer) {
  History ahead(History::kKept + 2, {"x"});
  EXPECT_EQ(first_difference(ahead, history_of({"a", "b"})), std::nullopt);
}

TEST(Notice, IsReadAsItWasWritten) {
  const Notice without = decode(encode({.history = history_of({"gathers a", "", "gathers b"}), .waiting = true}));
  EXPECT_EQ(without.history.operations(), (Operations{"gathers a", "", "gathers b"}));
  EXPECT_EQ(without.history.first(), 1);
  EXPECT_TRUE(without.waiting);
  EXPECT_FALSE(without.failure);
  const Notice failed = decode(encode({.history = History(7, {"x"}), .failure = Failure{3, "several\nlines", true}}));
  EXPECT_FALSE(failed.waiting);
  EXPECT_EQ(failed.history.first(), 7);
  EXPECT_EQ(failed.history.operations(), Operations{"x"});
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->rank, 3);
  EXPECT_EQ(failed.failure->message, "several\nlines");
  EXPECT_TRUE(failed.failure->of_connection);
  EXPECT_TRUE(decode(encode({.failure = Failure{0, "", false}})).history.operations().empty());
}

}  // namespace
}  // namespace fsdp::collectives
