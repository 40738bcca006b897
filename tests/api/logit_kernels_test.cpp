// Every set of instructions has the bits of the plain ones, and these are near the exact sums.
#include "api/logit_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace fsdp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Element>
class LogitKernelsOf : public ::testing::Test {
 protected:
  static Element element(float value) {
    if constexpr (std::is_same_v<Element, float>) return value;
    return static_cast<Element>(std::bit_cast<uint32_t>(value) >> 16);
  }
  static double value(Element element) {
    if constexpr (std::is_same_v<Element, float>) return element;
    return std::bit_cast<float>(static_cast<uint32_t>(element) << 16);
  }
  static std::vector<Element> random_logits(std::mt19937& random, size_t count) {
    std::normal_distribution<float> normal(0, 8);
    std::vector<Element> logits(count);
    for (Element& logit : logits) logit = element(normal(random));
    return logits;
  }
  static LogitRowSums sums_of(const LogitKernels<Element>& kernels, const std::vector<Element>& logits, size_t cut) {
    LogitRowSums sums;
    kernels.add(logits.data(), static_cast<int64_t>(cut), true, sums);
    kernels.add(logits.data() + cut, static_cast<int64_t>(logits.size() - cut), true, sums);
    return sums;
  }
};
using Elements = ::testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(LogitKernelsOf, Elements);

template <typename Number>
bool same_bits(Number a, Number b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TYPED_TEST(LogitKernelsOf, HaveTheBitsOfThePlainOnes) {
  std::mt19937 random(1);
  for (size_t count : {1, 7, 8, 9, 40, 131, 1000}) {
    std::vector<TypeParam> logits = this->random_logits(random, count), same = logits;
    const LogitRowSums found = this->sums_of(logit_kernels<TypeParam>(), logits, count / 3);
    const LogitRowSums plain = this->sums_of(plain_logit_kernels<TypeParam>(), logits, count / 3);
    EXPECT_TRUE(same_bits(found.largest, plain.largest) && same_bits(found.sum, plain.sum) &&
                same_bits(found.total, plain.total))
        << count;
    const LogitRowGradient of{.largest = found.largest,
                              .factor = 0.01F,
                              .everywhere = 1e-4F,
                              .at_target = -0.5F,
                              .target = static_cast<int64_t>(count / 2)};
    logit_kernels<TypeParam>().make_gradient(logits.data(), static_cast<int64_t>(count), of);
    plain_logit_kernels<TypeParam>().make_gradient(same.data(), static_cast<int64_t>(count), of);
    EXPECT_EQ(logits, same) << count;
  }
}

// Sums of up to 1,000 positive numbers, each wrong by a few units in the last place of 6e-8.
TYPED_TEST(LogitKernelsOf, AreNearTheExactSums) {
  std::mt19937 random(2);
  for (size_t count : {1, 8, 131, 1000}) {
    const std::vector<TypeParam> logits = this->random_logits(random, count);
    const LogitRowSums found = this->sums_of(logit_kernels<TypeParam>(), logits, count / 2);
    double largest = -kInfinity, sum = 0, total = 0, sizes = 0;
    for (TypeParam logit : logits) largest = std::max(largest, this->value(logit));
    for (TypeParam logit : logits) {
      sum += std::exp(this->value(logit) - largest);
      total += this->value(logit);
      sizes += std::abs(this->value(logit));
    }
    EXPECT_EQ(found.largest, largest);
    EXPECT_NEAR(found.sum / sum, 1, 1e-5) << count;
    EXPECT_NEAR(found.total, total, 1e-5 * sizes) << count;
  }
}

// Differences of 0 to -100: the exponential is right to 2 units in the last place, and 0 where it has fewer places.
TEST(LogitKernels, HaveExponentialsOfFullPrecision) {
  for (int i = 0; i <= 100000; ++i) {
    float logit = static_cast<float>(-i) / 1000;
    const float difference = logit;
    const double exact = std::exp(static_cast<double>(difference));
    logit_kernels<float>().make_gradient(&logit, 1,
                                         {.largest = 0, .factor = 1, .everywhere = 0, .at_target = 0, .target = -1});
    if (difference < -87.33F) {
      EXPECT_EQ(logit, 0);
    } else {
      EXPECT_NEAR(logit / exact, 1, 2.4e-7) << i;
    }
  }
}

TYPED_TEST(LogitKernelsOf, AddAtTheTargetAlone) {
  for (int64_t target : {-1, 0, 7, 8, 12, 13}) {
    std::vector<TypeParam> logits(13, this->element(2));
    logit_kernels<TypeParam>().make_gradient(
        logits.data(), 13, {.largest = 2, .factor = 0.25F, .everywhere = 0.5F, .at_target = -4, .target = target});
    for (int64_t i = 0; i < 13; ++i) EXPECT_EQ(this->value(logits[i]), i == target ? -3.25 : 0.75) << target << i;
  }
}

TYPED_TEST(LogitKernelsOf, TakeWhatIsNotFinite) {
  const TypeParam none = this->element(-kInfinity), nan = this->element(NAN);
  for (size_t place : {0, 3, 11}) {
    std::vector<TypeParam> logits(13, none);
    EXPECT_EQ(this->sums_of(logit_kernels<TypeParam>(), logits, 6).sum, 0);
    logits[place] = this->element(5);
    const LogitRowSums sums = this->sums_of(logit_kernels<TypeParam>(), logits, 6);
    EXPECT_EQ(sums.largest, 5);
    EXPECT_EQ(sums.sum, 1);
    logits[place] = nan;
    EXPECT_TRUE(std::isnan(this->sums_of(logit_kernels<TypeParam>(), logits, 6).sum));
    logits[12 - place] = this->element(5);
    EXPECT_TRUE(std::isnan(this->sums_of(logit_kernels<TypeParam>(), logits, 6).sum));
    logit_kernels<TypeParam>().make_gradient(
        logits.data(), 13, {.largest = 5, .factor = 1, .everywhere = 0, .at_target = 0, .target = -1});
    EXPECT_TRUE(std::isnan(this->value(logits[place])));
  }
}

}  // namespace
}  // namespace fsdp
