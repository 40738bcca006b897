#include "options/did_you_mean.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(Nearest, CountsInsertionsRemovalsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("widht", "width"), 1u);
  EXPECT_EQ(edit_distance("warmup", "warm-up"), 1u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // swapped characters are not edited again
}

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"--warmup", "--width", "--lr", "--clip"};
  EXPECT_EQ(did_you_mean("--warm-up", names), "--warmup");
  EXPECT_EQ(did_you_mean("--widht", names), "--width");
  EXPECT_EQ(did_you_mean("--rl", names), "--lr");
}

TEST(Nearest, DoesNotGuessWildly) {
  EXPECT_EQ(did_you_mean("--colour", {"--clip", "--layers"}), "");
  EXPECT_EQ(did_you_mean("", {"a"}), "");
  EXPECT_EQ(did_you_mean("abc", {}), "");
}

TEST(Nearest, AsksWhereThereIsSomething) {
  EXPECT_EQ(with_hint("'x' is nothing", ""), "'x' is nothing.");
  EXPECT_EQ(with_hint("'--warmpu' is nothing", "--warmup"), "'--warmpu' is nothing; did you mean --warmup?");
}

}  // namespace
}  // namespace trainer
