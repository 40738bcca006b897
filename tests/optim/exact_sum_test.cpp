// No order, grouping or size of the terms shows in the sum's bits.
#include "optim/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fsdp::optim {
namespace {

using Limits = std::numeric_limits<double>;

ExactSum sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (double term : terms) sum.add(term);
  return sum;
}

double value_of(const std::vector<double>& terms) { return sum_of(terms).value(); }

// All bits of the sum, also those that no double holds beside the largest term.
ExactSum::Limbs carried_limbs(const ExactSum& sum) { return ExactSum::from(sum.limbs(), sum.special()).limbs(); }

// From the smallest double to nearly the largest.
std::vector<double> wild_terms(size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> mantissa(0.5, 1);
  std::uniform_int_distribution<int> exponent(-1073, 1000);
  std::vector<double> terms(count);
  for (double& term : terms) term = std::ldexp(mantissa(random), exponent(random));
  return terms;
}

TEST(ExactSum, DoesNotDependOnTheOrder) {
  std::mt19937_64 random(1);
  std::vector<double> terms = wild_terms(5000, random);
  const ExactSum expected = sum_of(terms);
  for (int trial = 0; trial < 10; ++trial) {
    std::shuffle(terms.begin(), terms.end(), random);
    const ExactSum found = sum_of(terms);
    EXPECT_EQ(found.value(), expected.value());
    EXPECT_EQ(carried_limbs(found), carried_limbs(expected));
  }
}

TEST(ExactSum, DoesNotDependOnTheGrouping) {
  std::mt19937_64 random(2);
  const std::vector<double> terms = wild_terms(2000, random);
  const ExactSum expected = sum_of(terms);
  for (size_t parts : {1, 2, 3, 7, 100}) {
    std::vector<ExactSum> sums(parts);
    for (double term : terms) sums[random() % parts].add(term);
    ExactSum found;
    for (const ExactSum& part : sums) found.add(part);
    EXPECT_EQ(found.value(), expected.value()) << parts;
    EXPECT_EQ(carried_limbs(found), carried_limbs(expected)) << parts;
  }
}

TEST(ExactSum, OfOneTermIsTheTerm) {
  for (double term : {1e308, 1e-308, 1e-320, Limits::denorm_min(), 3 * Limits::denorm_min(), Limits::min(),
                      std::nextafter(Limits::min(), 0.0), Limits::max(), 1.0, 0.1, 4294967296.0}) {
    EXPECT_EQ(value_of({term}), term);
  }
  std::mt19937_64 random(3);
  for (double term : wild_terms(5000, random)) ASSERT_EQ(value_of({term}), term);
}

TEST(ExactSum, KeepsWhatADoubleWouldLoseBesideALargeTerm) {
  const double large = std::ldexp(1.0, 53);  // the next double is larger by 2
  EXPECT_EQ(value_of({large, 1, 1}), large + 2);
  EXPECT_EQ(value_of({1e-308, Limits::denorm_min()}), std::nextafter(1e-308, 1.0));
  EXPECT_EQ(value_of({Limits::denorm_min(), Limits::denorm_min(), Limits::denorm_min()}), 3 * Limits::denorm_min());
  EXPECT_EQ(value_of({std::nextafter(Limits::min(), 0.0), Limits::denorm_min()}), Limits::min());
  EXPECT_NE(carried_limbs(sum_of({1e308, Limits::denorm_min()})), carried_limbs(sum_of({1e308})));
  EXPECT_EQ(value_of({1e308, 1e-308, Limits::denorm_min()}), 1e308);
}

TEST(ExactSum, EqualsTheSumOfIntegers) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 200; ++trial) {
    ExactSum sum;
    uint64_t expected = 0;
    for (int i = 0; i < 100; ++i) {
      const uint64_t term = (random() >> 11) >> (random() % 53);  // at most 53 bits, so that a double holds it
      sum.add(static_cast<double>(term));
      expected += term;
    }
    ASSERT_EQ(sum.value(), static_cast<double>(expected));
  }
}

TEST(ExactSum, CarriesOverManyTerms) {
  const double term = std::ldexp(1.0, 53) - 1;  // all bits set: each addition carries
  ExactSum sum;
  for (int i = 0; i < 1 << 20; ++i) sum.add(term);
  EXPECT_EQ(sum.value(), std::ldexp(term, 20));
  for (int i = 0; i < 100; ++i) sum.add(ExactSum(sum));
  EXPECT_EQ(sum.value(), std::ldexp(term, 120));
}

TEST(ExactSum, OfNothingAndOfZerosIsZero) {
  EXPECT_EQ(value_of({}), 0);
  EXPECT_EQ(value_of({0.0, -0.0, 0.0}), 0);
  EXPECT_EQ(carried_limbs(sum_of({0.0})), ExactSum::Limbs{});
  ExactSum sum = sum_of({2});
  sum.add(ExactSum());
  EXPECT_EQ(sum.value(), 2);
}

TEST(ExactSum, OfAnInfiniteTermIsInfinite) {
  EXPECT_EQ(value_of({1, Limits::infinity(), 2}), Limits::infinity());
  EXPECT_EQ(value_of({Limits::infinity(), Limits::infinity()}), Limits::infinity());
  ExactSum sum = sum_of({1});
  sum.add(sum_of({Limits::infinity()}));
  EXPECT_EQ(sum.value(), Limits::infinity());
}

TEST(ExactSum, BeyondTheLargestDoubleIsInfinite) {
  EXPECT_EQ(value_of({Limits::max(), Limits::max()}), Limits::infinity());
}

TEST(ExactSum, OfANaNIsNaNWhateverElseThereIs) {
  EXPECT_TRUE(std::isnan(value_of({1, Limits::quiet_NaN(), 2})));
  EXPECT_TRUE(std::isnan(value_of({Limits::quiet_NaN(), Limits::infinity()})));
  ExactSum sum = sum_of({Limits::infinity()});
  sum.add(sum_of({Limits::quiet_NaN()}));
  EXPECT_TRUE(std::isnan(sum.value()));
}

TEST(ExactSum, ComesBackFromItsLimbs) {
  std::mt19937_64 random(5);
  const std::vector<double> terms = wild_terms(1000, random);
  const ExactSum sent = sum_of(terms);
  ExactSum received = ExactSum::from(sent.limbs(), sent.special());
  EXPECT_EQ(received.value(), sent.value());
  received.add(1e-300);
  ExactSum expected = sent;
  expected.add(1e-300);
  EXPECT_EQ(carried_limbs(received), carried_limbs(expected));
  for (double special : {Limits::infinity(), Limits::quiet_NaN()}) {
    const ExactSum other = sum_of({1, special});
    const double value = ExactSum::from(other.limbs(), other.special()).value();
    EXPECT_TRUE(std::isnan(special) ? std::isnan(value) : value == special);
  }
}

TEST(ExactSum, IsRoundedOnce) {
  // A little more than half way to the next double: only what lies far below decides.
  EXPECT_EQ(value_of({1, std::ldexp(1.0, -53), std::ldexp(1.0, -200)}), std::nextafter(1.0, 2.0));
  EXPECT_EQ(value_of({1, std::ldexp(1.0, -53)}), 1.0);  // exactly half way: to the even one
}

}  // namespace
}  // namespace fsdp::optim
