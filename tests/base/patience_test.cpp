#include "base/patience.h"

#include <gtest/gtest.h>

namespace fsdp {
namespace {

using namespace std::chrono_literals;

const Patience::Clock::time_point kBegin{};

TEST(Patience, IsOverAfterItsTime) {
  Patience patience(2s, kBegin);
  auto now = kBegin;
  for (; now < kBegin + 2s; now += 100ms) EXPECT_FALSE(patience.is_over(now));
  EXPECT_TRUE(patience.is_over(now));
}

TEST(Patience, CountsNoMoreThanASliceOfAPause) {
  Patience patience(2s, kBegin);
  EXPECT_FALSE(patience.is_over(kBegin + 24h));
  EXPECT_FALSE(patience.is_over(kBegin + 24h + 1400ms));  // as if there had been no look meanwhile
  EXPECT_TRUE(patience.is_over(kBegin + 48h) || patience.is_over(kBegin + 72h));
}

TEST(Patience, OfAMomentOutlastsAPause) {
  Patience patience(20ms, kBegin);
  EXPECT_FALSE(patience.is_over(kBegin + 1h));
}

TEST(Patience, SaysWhenToLookAgain) {
  EXPECT_EQ(Patience(1h, kBegin).until_next_look(), 250ms);
  EXPECT_EQ(Patience(1s, kBegin).until_next_look(), 125ms);
  EXPECT_EQ(Patience(1ms, kBegin).until_next_look(), 1ms);
  Patience over(0ms, kBegin);
  EXPECT_TRUE(over.is_over(kBegin));
  EXPECT_EQ(over.until_next_look(), 0ms);
}

TEST(Patience, OfAYearIsNotOver) {
  Patience patience(std::chrono::hours(365 * 24), kBegin);
  EXPECT_FALSE(patience.is_over(kBegin + 1h));
}

}  // namespace
}  // namespace fsdp
