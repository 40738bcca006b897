#include "data/token_source.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/data/support.h"
#include "support/message_of.h"

namespace data {
namespace {

using fsdp::testing::message_of;
using ::testing::ElementsAre;

Tokens counting(int64_t size, int64_t first = 0) { return std::make_shared<CountingTokens>(size, first); }

TEST(TokenSource, APartBeginsWhereItWasCut) {
  const Tokens part = part_of(counting(100), 40, 3);
  EXPECT_EQ(part->size(), 3);
  EXPECT_EQ(part->limit(), 100);
  EXPECT_THAT(read_all(*part), ElementsAre(40, 41, 42));
  EXPECT_EQ(part->where(2), "counting, token 42");
}

TEST(TokenSource, JoinedSourcesAreRead) {
  const Tokens all = joined({counting(3), counting(1, 50), counting(4, 90)});
  EXPECT_EQ(all->size(), 8);
  EXPECT_EQ(all->limit(), 94);
  const std::vector<int64_t> expected = {0, 1, 2, 50, 90, 91, 92, 93};
  for (size_t first = 0; first < expected.size(); ++first) {
    for (size_t count = 1; first + count <= expected.size(); ++count) {
      std::vector<int64_t> found(count);
      all->read(static_cast<int64_t>(first), found);
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
      EXPECT_EQ(found, std::vector<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
  EXPECT_EQ(all->where(3), "counting, token 0");
  EXPECT_EQ(all->where(7), "counting, token 3");
}

// Remembers how often it was asked.
class AskedTokens final : public TokenSource {
 public:
  int64_t size() const override { return 10; }
  int64_t limit() const override { return 10; }
  void read(int64_t first, std::span<int64_t> tokens) const override { CountingTokens(10).read(first, tokens); }
  void read_several(std::span<const Reading> readings) const override {
    ++asked;
    TokenSource::read_several(readings);
  }
  std::string where(int64_t) const override { return ""; }

  mutable int asked = 0;
};

TEST(TokenSource, PlacesAreReadTogether) {
  const auto first = std::make_shared<AskedTokens>(), second = std::make_shared<AskedTokens>();
  const Tokens all = part_of(joined({first, second, counting(100)}), 5, 20);  // 5 .. 9, 0 .. 9, 0 .. 4
  std::vector<int64_t> crossing(4), begin(2), middle(3), none;
  const std::vector<Reading> readings = {{3, crossing}, {0, begin}, {20, none}, {12, middle}};
  all->read_several(readings);
  EXPECT_THAT(crossing, ElementsAre(8, 9, 0, 1));
  EXPECT_THAT(begin, ElementsAre(5, 6));
  EXPECT_THAT(middle, ElementsAre(7, 8, 9));
  EXPECT_EQ(first->asked, 1);
  EXPECT_EQ(second->asked, 1);
}

TEST(TokenSplit, HoldsTheLastTwentiethBack) {
  const TokenSplit split = split_tokens(counting(1000), 0.05, 16);
  EXPECT_EQ(split.training->size(), 950);
  EXPECT_EQ(split.validation->size(), 50);
  EXPECT_EQ(read_all(*split.validation).front(), 950);
}

// A twentieth, rounded down, is what the program has always held back.
TEST(TokenSplit, RoundsDown) {
  for (int64_t size = 400; size < 4000; ++size) {
    EXPECT_EQ(split_tokens(counting(size), 0.05, 16).validation->size(), size / 20);
  }
}

TEST(TokenSplit, HoldsNothingBackWhereAPartWouldHaveNoWindow) {
  EXPECT_EQ(split_tokens(counting(100), 0.05, 16).training->size(), 100);
  EXPECT_EQ(split_tokens(counting(100), 0.05, 16).validation, nullptr);
  EXPECT_EQ(split_tokens(counting(100), 0.9, 16).validation, nullptr);
  EXPECT_EQ(split_tokens(counting(100), 0, 16).validation, nullptr);
}

TEST(TokenSource, OneWindowHasToBeThere) {
  check_window(CountingTokens(5), 4, "data 'x'");
  EXPECT_EQ(message_of<fsdp::Error>([] { check_window(CountingTokens(4), 4, "data 'x'"); }),
            "data 'x' has 4 tokens, and one window of context 4 needs 5. Use more text or a smaller context.");
}

}  // namespace
}  // namespace data
