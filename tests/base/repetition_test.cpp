#include "base/repetition.h"

#include <gmock/gmock.h>

#include <numeric>
#include <string>

namespace fsdp {
namespace {

using ::testing::ElementsAre;

// Stretches of rows that are alike when their letters are equal, as "begin+shown+repeated".
std::vector<std::string> stretches_of(const std::string& letters, const std::vector<int>& places) {
  const auto shift = [&](size_t a, size_t b) -> std::optional<int> {
    return letters[a] == letters[b] ? std::optional(places[b] - places[a]) : std::nullopt;
  };
  std::vector<std::string> found;
  for (const auto& [begin, shown, repeated] : find_repetitions(letters.size(), shift)) {
    found.push_back(std::to_string(begin) + "+" + std::to_string(shown) + "+" + std::to_string(repeated));
  }
  return found;
}

std::vector<std::string> stretches_of(const std::string& letters) {
  std::vector<int> places(letters.size());
  std::iota(places.begin(), places.end(), 0);
  return stretches_of(letters, places);
}

TEST(Repetition, ShowsAFewRowsAsTheyAre) {
  EXPECT_THAT(stretches_of("abbb"), ElementsAre("0+1+0", "1+1+0", "2+1+0", "3+1+0"));
}

TEST(Repetition, SumsUpManyAlike) {
  EXPECT_THAT(stretches_of("a" + std::string(20, 'b') + "c"), ElementsAre("0+1+0", "1+1+19", "21+1+0"));
}

TEST(Repetition, SumsUpRowsThatTakeTurns) {
  std::string letters = "x";
  for (int i = 0; i < 10; ++i) letters += "abc";
  EXPECT_THAT(stretches_of(letters), ElementsAre("0+1+0", "1+3+27"));
}

TEST(Repetition, TakesRowsForAlikeOnlyWhenTheyMoveOnByTheSame) {
  std::vector<int> places(20);
  for (int i = 0; i < 20; ++i) places[i] = i < 10 ? i : 10 + 2 * (i - 10);
  EXPECT_THAT(stretches_of(std::string(20, 'a'), places), ElementsAre("0+1+10", "11+1+8"));
}

}  // namespace
}  // namespace fsdp
