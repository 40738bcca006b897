// Norms agree with their definition, and their bits do not show how the elements were divided.
#include "optim/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fsdp::optim {
namespace {

using Floats = std::numeric_limits<float>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNormTypes[] = {1, 2, 3, 0.5, kInfinity};

std::vector<float> random_elements(size_t numel, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> elements(numel);
  for (float& element : elements) element = normal(random) * std::exp(4 * normal(random));
  return elements;
}

double norm_of(std::span<const float> elements, double norm_type) {
  NormSum norm(norm_type);
  norm.add(elements);
  return norm.norm();
}

double by_definition(const std::vector<float>& elements, double norm_type) {
  long double sum = 0, largest = 0;
  for (float element : elements) {
    const long double magnitude = std::fabs(static_cast<long double>(element));
    sum += std::pow(magnitude, static_cast<long double>(norm_type));
    largest = std::max(largest, magnitude);
  }
  return static_cast<double>(std::isinf(norm_type) ? largest : std::pow(sum, 1 / static_cast<long double>(norm_type)));
}

// Each power and each of the at most 15 additions of a block rounds a double, relative to a sum without cancellation;
// adding the blocks does not round. The root at most doubles the error, for norm_type 0.5.
constexpr double kTolerance = 2 * 16 * std::numeric_limits<double>::epsilon();

TEST(NormSum, IsTheNormOfTheDefinition) {
  for (size_t numel : {1, 7, 8, 63, 64, 65, 1000, 10000}) {
    const std::vector<float> elements = random_elements(numel, static_cast<unsigned>(numel));
    for (double norm_type : kNormTypes) {
      const double expected = by_definition(elements, norm_type);
      EXPECT_NEAR(norm_of(elements, norm_type), expected, kTolerance * expected) << norm_type << " of " << numel;
    }
  }
}

TEST(NormSum, OfSimpleElementsIsExact) {
  const std::vector<float> elements{3, 0, -4, -0.0f};
  EXPECT_EQ(norm_of(elements, 1), 7);
  EXPECT_EQ(norm_of(elements, 2), 5);
  EXPECT_EQ(norm_of(elements, kInfinity), 4);
}

TEST(NormSum, HoldsPowersThatNoFloatHolds) {
  const std::vector<float> large(100, Floats::max()), small(100, Floats::denorm_min());
  for (const auto& elements : {large, small}) {
    const double expected = 10.0 * elements[0];
    EXPECT_NEAR(norm_of(elements, 2), expected, kTolerance * expected);
  }
}

TEST(NormSum, HasTheSameBitsWhereverTheElementsAreCutBetweenBlocks) {
  const std::vector<float> all = random_elements(1000, 1);
  const std::span<const float> elements(all);
  for (double norm_type : kNormTypes) {
    const double expected = norm_of(elements, norm_type);
    for (size_t cut = 0; cut <= elements.size(); cut += 64) {
      NormSum one(norm_type), first(norm_type), second(norm_type);
      one.add(elements.first(cut));
      one.add(elements.subspan(cut));
      EXPECT_EQ(one.norm(), expected) << norm_type << " cut at " << cut;
      first.add(elements.first(cut));
      second.add(elements.subspan(cut));
      second.add(first);
      EXPECT_EQ(second.norm(), expected) << norm_type << " cut at " << cut << " and added the other way round";
    }
  }
}

TEST(NormSum, HasTheSameBitsForAnyNumberOfPieces) {
  const std::vector<float> all = random_elements(100 * 64 + 5, 2);
  const std::span<const float> elements(all);
  std::mt19937 random(3);
  for (double norm_type : kNormTypes) {
    std::vector<NormSum> ranks(5, NormSum(norm_type));
    for (size_t begin = 0; begin < elements.size(); begin += 64) {
      ranks[random() % ranks.size()].add(elements.subspan(begin, std::min<size_t>(64, elements.size() - begin)));
    }
    NormSum found(norm_type);
    for (const NormSum& rank : ranks) found.add(rank);
    EXPECT_EQ(found.norm(), norm_of(elements, norm_type)) << norm_type;
  }
}

TEST(NormSum, OfAnInfiniteElementIsInfinite) {
  std::vector<float> elements = random_elements(200, 4);
  elements[130] = -Floats::infinity();
  for (double norm_type : kNormTypes) EXPECT_EQ(norm_of(elements, norm_type), kInfinity) << norm_type;
}

TEST(NormSum, OfANaNIsNaNWhateverElseThereIs) {
  for (size_t place : {0, 100, 199}) {
    std::vector<float> elements = random_elements(200, 5);
    elements[130] = Floats::infinity();
    elements[place] = Floats::quiet_NaN();
    for (double norm_type : kNormTypes) EXPECT_TRUE(std::isnan(norm_of(elements, norm_type))) << norm_type;
  }
}

TEST(NormSum, TakesInfiniteAndNaNElementsOverFromAnother) {
  for (double norm_type : kNormTypes) {
    NormSum found(norm_type), infinite(norm_type), nan(norm_type);
    found.add(std::vector<float>{1});
    infinite.add(std::vector<float>{Floats::infinity()});
    nan.add(std::vector<float>{Floats::quiet_NaN()});
    found.add(infinite);
    EXPECT_EQ(found.norm(), kInfinity) << norm_type;
    found.add(nan);
    EXPECT_TRUE(std::isnan(found.norm())) << norm_type;
    found.add(infinite);
    EXPECT_TRUE(std::isnan(found.norm())) << norm_type;
  }
}

TEST(NormSum, OfNoElementsIsZeroAndChangesNothing) {
  for (double norm_type : kNormTypes) {
    EXPECT_EQ(norm_of({}, norm_type), 0) << norm_type;
    NormSum norm(norm_type);
    norm.add(std::vector<float>{-2});
    norm.add(std::span<const float>());
    norm.add(NormSum(norm_type));
    EXPECT_EQ(norm.norm(), norm_of(std::vector<float>{-2}, norm_type)) << norm_type;
  }
}

}  // namespace
}  // namespace fsdp::optim
