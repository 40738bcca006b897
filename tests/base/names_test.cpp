#include "base/names.h"

#include <gtest/gtest.h>

namespace fsdp {
namespace {

TEST(Matches, TakesTheNameAsAWhole) {
  EXPECT_TRUE(matches("wte.weight", "wte.weight"));
  EXPECT_FALSE(matches("weight", "wte.weight"));
  EXPECT_FALSE(matches("wte", "wte.weight"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Matches, AStarStandsForAnythingAndAQuestionMarkForOne) {
  EXPECT_TRUE(matches("*.bias", "blocks.0.linear.bias"));
  EXPECT_TRUE(matches("blocks.?.*", "blocks.7.linear.bias"));
  EXPECT_FALSE(matches("blocks.?.*", "blocks.17.linear.bias"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*ab*ab", "abcabab"));
  EXPECT_FALSE(matches("*ab*abc", "abcabab"));
}

TEST(Names, MatchAnyOfSeveralPatterns) {
  EXPECT_TRUE(matches_any({"a.*", "b"}, "b"));
  EXPECT_TRUE(matches_any({"a.*", "b"}, "a.x"));
  EXPECT_FALSE(matches_any({"a.*", "b"}, "c"));
  EXPECT_FALSE(matches_any({}, "c"));
}

}  // namespace
}  // namespace fsdp
