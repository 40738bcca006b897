#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace fsdp {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Checked, ThrowsInsteadOfWrapping) {
  EXPECT_EQ(checked_add(2, 3), 5);
  EXPECT_THROW(checked_add(kMax, 1), Error);
  EXPECT_EQ(checked_mul(1 << 20, 1 << 20), int64_t{1} << 40);
  EXPECT_THROW(checked_mul(kMax / 2, 3), Error);
}

TEST(Checked, RoundsUpToAMultiple) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_THROW(round_up(kMax, 64), Error);
}

}  // namespace
}  // namespace fsdp
