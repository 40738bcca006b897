#include "options/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainer {
namespace {

TEST(NumbersAsTyped, AreWhole) {
  EXPECT_EQ(whole_number_in("300"), 300);
  EXPECT_EQ(whole_number_in("+3"), 3);
  EXPECT_EQ(whole_number_in("-3"), -3);
  EXPECT_EQ(whole_number_in("2_000"), 2000);
  EXPECT_EQ(whole_number_in("1_000_000"), 1'000'000);
  EXPECT_EQ(whole_number_in("16k"), 16'000);
  EXPECT_EQ(whole_number_in("16K"), 16'000);
  EXPECT_EQ(whole_number_in("1.5M"), 1'500'000);
  EXPECT_EQ(whole_number_in("2_0k"), 20'000);
  EXPECT_EQ(whole_number_in("3G"), 3'000'000'000);
  EXPECT_EQ(whole_number_in("3B"), 3'000'000'000);
  EXPECT_EQ(whole_number_in("3T"), 3'000'000'000'000);
  EXPECT_EQ(whole_number_in("1e6"), 1'000'000);
  EXPECT_EQ(whole_number_in("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(NumbersAsTyped, HaveAPoint) {
  EXPECT_EQ(number_in("1e-3"), 1e-3);
  EXPECT_EQ(number_in("10k"), 10'000.0);
  EXPECT_EQ(number_in("0.5M"), 500'000.0);
  EXPECT_EQ(number_in("1_000.5"), 1000.5);
  EXPECT_EQ(number_in("inf"), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(number_in("nan").value_or(0)));
}

TEST(NumbersAsTyped, BeyondTheRangeAreKnownRoughly) {
  EXPECT_EQ(rough_number_in("18446744073709551616"), 18446744073709551616.0);
  EXPECT_EQ(rough_number_in("-1e400"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(rough_number_in("1e-400"), 0.0);
  EXPECT_EQ(rough_number_in("1e400k"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rough_number_in("1e400x"), std::nullopt);
}

TEST(NumbersAsTyped, CountBytes) {
  EXPECT_EQ(bytes_in("64GB"), 64e9);
  EXPECT_EQ(bytes_in("64G"), 64e9);
  EXPECT_EQ(bytes_in("1.5GB"), 1.5e9);
  EXPECT_EQ(bytes_in("2_000kB"), 2e6);
  EXPECT_EQ(bytes_in("3T"), 3e12);
  EXPECT_EQ(bytes_in("300"), 300.0);
  EXPECT_EQ(bytes_in("300B"), 300.0);
  EXPECT_EQ(bytes_in("64GiB"), 64.0 * (1 << 30));
  EXPECT_EQ(bytes_in("1.5KiB"), 1536.0);
  EXPECT_EQ(bytes_in("1TiB"), 1099511627776.0);
  for (const char* text : {"", "B", "GB", "GiB", "iB", "64gb", "64 GB", "64GBB", "64iB", "64Gi", "64XB", "many"}) {
    EXPECT_EQ(bytes_in(text), std::nullopt) << text;
  }
}

TEST(NumbersAsTyped, AreNone) {
  for (const char* text : {"", "k", "_1", "1_", "1__0", "1_k", "1m", "12kk", "many", "1,000", "0x10", " 1", "1 ", "1e",
                           "--1", "+", "infk", "1e400"}) {
    EXPECT_EQ(whole_number_in(text), std::nullopt) << text;
    EXPECT_EQ(number_in(text), std::nullopt) << text;
  }
  for (const char* text : {"1.5", "1e-3", "nan", "inf", "1e30", "1.0005k", "99999999999999999999",
                           "-99999999999999999999", "9223372036854775807k"}) {
    EXPECT_EQ(whole_number_in(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace trainer
