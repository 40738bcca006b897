// Statuses that ranks tell each other, and the place where two histories differ.
#include "collectives/rank_status.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

namespace fsdp::collectives {
namespace {

using Operations = std::deque<std::string>;

History history_of(const Operations& operations) {
  History history;
  for (const std::string& operation : operations) history.add(operation);
  return history;
}

TEST(RankStatus, ARankThatIsBehindDoesNotDiffer) {
  EXPECT_EQ(first_difference(history_of({"a", "b", "c"}), history_of({"a", "b"})), std::nullopt);
  EXPECT_EQ(first_difference(history_of({}), history_of({"a"})), std::nullopt);
}

TEST(RankStatus, TheFirstDifferenceIsFound) {
  EXPECT_EQ(first_difference(history_of({"a", "b", "c"}), history_of({"a", "c", "b", "d"})), 2);
  EXPECT_EQ(first_difference(history_of({"a"}), history_of({"b"})), 1);
}

// Their facts are compared.
TEST(RankStatus, CallsOfAWorldAreOneOperation) {
  EXPECT_EQ(first_difference(history_of({"calls World::gather"}), history_of({"calls World::all_reduce_"})),
            std::nullopt);
  EXPECT_EQ(first_difference(history_of({"calls World::gather"}), history_of({"enters a barrier"})), 1);
}

TEST(RankStatus, AHistoryKeepsTheLatestUnderTheirNumbers) {
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

TEST(RankStatus, HistoriesWithNothingInCommonDoNotDiffer) {
  History ahead(History::kKept + 2, {"x"});
  EXPECT_EQ(first_difference(ahead, history_of({"a", "b"})), std::nullopt);
}

RankStatus read(const std::string& text) {
  const std::optional<RankStatus> status = decode(text);
  EXPECT_TRUE(status) << "cannot be read";
  return status.value_or(RankStatus{});
}

TEST(RankStatus, TellsOfACallOfAWorld) {
  const RankStatus status =
      read(encode({.history = history_of({"gathers a"}), .call = WorldCall{~0ull, 7, "calls it"}}));
  ASSERT_TRUE(status.call);
  EXPECT_EQ(status.call->world, ~0ull);
  EXPECT_EQ(status.call->number, 7u);
  EXPECT_EQ(status.call->purpose, "calls it");
  EXPECT_EQ(status.history.end(), 2);
  EXPECT_FALSE(read(encode({})).call);
}

TEST(WorldCalls, AwaitThoseWhoHaveBegunFewer) {
  WorldCalls calls;
  calls.open({.group = 1});
  EXPECT_TRUE(calls.is_awaited_by({.world = 1, .number = 1}));
  EXPECT_EQ(calls.begin(1), 1u);
  EXPECT_FALSE(calls.is_awaited_by({.world = 1, .number = 1}));
  EXPECT_TRUE(calls.is_awaited_by({.world = 1, .number = 2}));
  EXPECT_FALSE(calls.is_awaited_by({.world = 2, .number = 1})) << "this rank is none of that world's";
}

TEST(RankStatus, IsReadAsItWasWritten) {
  const RankStatus without = read(encode({.history = history_of({"gathers a", "", "gathers b"}), .waiting = true}));
  EXPECT_EQ(without.history.operations(), (Operations{"gathers a", "", "gathers b"}));
  EXPECT_EQ(without.history.first(), 1);
  EXPECT_TRUE(without.waiting);
  EXPECT_FALSE(without.failure);
  const RankStatus failed = read(encode({.history = History(7, {"x"}), .failure = Failure{3, "several\nlines", true}}));
  EXPECT_FALSE(failed.waiting);
  EXPECT_EQ(failed.history.first(), 7);
  EXPECT_EQ(failed.history.operations(), Operations{"x"});
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->rank, 3);
  EXPECT_EQ(failed.failure->message, "several\nlines");
  EXPECT_TRUE(failed.failure->of_connection);
  EXPECT_TRUE(read(encode({.failure = Failure{0, "", false}})).history.operations().empty());
}

const RankStatus kFailed{
    .history = History(7, {"gathers a", "", "reduces b"}), .waiting = true, .failure = Failure{3, "no memory", false}};

TEST(RankStatus, ThatWasCutOffIsNoneUnlessTheRestIsWhole) {
  const std::string text = encode(kFailed);
  for (size_t length = 0; length < text.size(); ++length) {
    const std::optional<RankStatus> status = decode(text.substr(0, length));
    // Whole fields: what is left is a shorter history, behind a failure that is there.
    if (!status) continue;
    EXPECT_EQ(text[length - 1], '\0') << length;
    ASSERT_TRUE(status->failure) << length;
    EXPECT_EQ(status->failure->message, "no memory") << length;
    EXPECT_EQ(status->history.first(), 7) << length;
    EXPECT_LT(status->history.operations().size(), 3) << length;
  }
  EXPECT_TRUE(decode(text));
}

TEST(RankStatus, WithoutItsNumbersIsNone) {
  auto text = [](std::initializer_list<std::string> fields) {
    std::string all;
    for (const std::string& field : fields) all += field + '\0';
    return all;
  };
  EXPECT_TRUE(decode(text({"0", "0", "0", "1", "gathers a"})));
  EXPECT_FALSE(decode(""));
  EXPECT_FALSE(decode("garbage"));
  EXPECT_FALSE(decode(text({"0"})));
  EXPECT_FALSE(decode(text({"2", "0", "0", "1"})));
  EXPECT_FALSE(decode(text({"yes", "0", "0", "1"})));
  EXPECT_FALSE(decode(text({"0", "0", "0", ""})));
  EXPECT_FALSE(decode(text({"0", "0", "0", "0"})));
  EXPECT_FALSE(decode(text({"0", "0", "0", "-1"})));
  EXPECT_FALSE(decode(text({"0", "0", "0", " 1"})));
  EXPECT_FALSE(decode(text({"0", "0", "0", "1x"})));
  EXPECT_FALSE(decode(text({"0", "0", "0", "9223372036854775807"})));
  EXPECT_FALSE(decode(text({"0", "0", "0", "99999999999999999999999"})));
  EXPECT_FALSE(decode(text({"0", "1", "3000000000", "0", "text", "0", "1"})));
  EXPECT_FALSE(decode(text({"0", "1", "-1", "0", "text", "0", "1"})));
  EXPECT_FALSE(decode(text({"0", "1", "3", "0"})));
  EXPECT_TRUE(decode(text({"0", "0", "1", "-5", "1", "calls it", "1"})));
  EXPECT_FALSE(decode(text({"0", "0", "1", "-5", "0", "calls it", "1"})));
  EXPECT_FALSE(decode(text({"0", "0", "1", "x", "1", "calls it", "1"})));
  EXPECT_FALSE(decode(text({"0", "0", "1", "-5", "1", "calls it"})));
}

// None, or one that can be used: compared with others and written again.
void expect_harmless(const std::string& text) {
  const std::optional<RankStatus> status = decode(text);
  if (!status) return;
  const History other(status->history.first(), {"another"});
  const std::optional<int64_t> number = first_difference(status->history, other);
  if (number) EXPECT_NE(status->history.operation(*number), "another");
  EXPECT_EQ(encode(*decode(encode(*status))), encode(*status));
}

TEST(RankStatus, OfRandomBytesDoesNoHarm) {
  std::mt19937 random(17);
  const std::string whole = encode(kFailed);
  // Bytes of all values; those that statuses are made of; and a whole status with some bytes changed, lost or added.
  const std::string digits("01-+ 9x\0\0\0", 10);
  for (int run = 0; run < 100000; ++run) {
    std::string any, likely, changed = whole;
    for (size_t left = random() % 40; left > 0; --left) {
      any += static_cast<char>(random());
      likely += digits[random() % digits.size()];
    }
    for (size_t left = 1 + random() % 4; left > 0 && !changed.empty(); --left) {
      const size_t at = random() % changed.size();
      if (random() % 3 == 0) {
        changed.erase(at, 1);
      } else if (random() % 2 == 0) {
        changed.insert(at, 1, static_cast<char>(random()));
      } else {
        changed[at] = digits[random() % digits.size()];
      }
    }
    for (const std::string& text : {any, likely, changed}) expect_harmless(text);
  }
}

}  // namespace
}  // namespace fsdp::collectives
