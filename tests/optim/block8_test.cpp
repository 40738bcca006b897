// Every float goes to the nearest place of its map, and what was packed once is packed to the same codes again.
#include "optim/block8.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fsdp::optim {
namespace {

template <typename Code>
class Block8 : public ::testing::Test {
 protected:
  static constexpr int kLowest = std::is_signed_v<Code> ? -127 : 0, kHighest = std::is_signed_v<Code> ? 127 : 255;

  static double place(int code) { return block8_value(static_cast<Code>(code)); }
  // By trying all; of two that are equally near, the one nearer to 0.
  static int nearest(double ratio) {
    int best = 0;
    for (int code = kLowest; code <= kHighest; ++code) {
      const double better = std::abs(place(best) - ratio) - std::abs(place(code) - ratio);
      if (better > 0 || (better == 0 && std::abs(code) < std::abs(best))) best = code;
    }
    return best;
  }
  struct Packed {
    std::vector<Code> codes;
    float scale;
  };
  static Packed pack(const std::vector<float>& values) {
    Packed packed{std::vector<Code>(values.size()), 0};
    packed.scale = block8_pack(values, packed.codes.data());
    return packed;
  }
  static std::vector<float> unpack(const Packed& packed) {
    std::vector<float> values(packed.codes.size());
    block8_unpack(packed.codes, packed.scale, values.data());
    return values;
  }
  // Of all magnitudes, and of both signs where there are two.
  static std::vector<float> random_values(std::mt19937& random, size_t count, float scale) {
    std::uniform_real_distribution<float> exponent(-8, 0);
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i) {
      const float size = std::pow(10.0F, exponent(random)) * scale;
      values.push_back(kLowest < 0 && random() % 2 == 0 ? -size : size);
    }
    return values;
  }
};
using Codes = ::testing::Types<int8_t, uint8_t>;
TYPED_TEST_SUITE(Block8, Codes);

TYPED_TEST(Block8, PlacesRiseWithTheCodesFromEndToEnd) {
  for (int code = this->kLowest; code < this->kHighest; ++code) {
    EXPECT_LT(this->place(code), this->place(code + 1)) << code;
  }
  EXPECT_EQ(this->place(0), 0);
  EXPECT_EQ(this->place(this->kHighest), 1);
  EXPECT_EQ(this->place(this->kLowest), this->kLowest < 0 ? -1 : 0);
}

// Of y = 1 + top * place, 16 to each power of 2.
TEST(Block8Map, HasThePlacesOfTheHeader) {
  EXPECT_NEAR(block8_value(int8_t{1}) / (1.0F / 16 / 247), 1, 1e-6);
  EXPECT_NEAR(block8_value(int8_t{16}) / (1.0F / 247), 1, 1e-6);
  EXPECT_NEAR(block8_value(int8_t{17}) / (1.125F / 247), 1, 1e-6);
  EXPECT_NEAR(block8_value(int8_t{-126}) / (-239.0F / 247), 1, 1e-6);
  EXPECT_EQ(block8_value(int8_t{-128}), -1);
  EXPECT_NEAR(block8_value(uint8_t{1}) / (1.0F / 16 / 63487), 1, 1e-6);
  EXPECT_NEAR(block8_value(uint8_t{160}) / (1023.0F / 63487), 1, 1e-6);
  EXPECT_NEAR(block8_value(uint8_t{254}) / (61439.0F / 63487), 1, 1e-6);
}

TYPED_TEST(Block8, EveryPlaceKeepsItsCode) {
  for (float scale : {1.0F, 3.7e-5F, 1e30F, 1e-25F}) {
    for (int code = this->kLowest; code <= this->kHighest; ++code) {
      const auto packed = this->pack({scale, static_cast<float>(this->place(code)) * scale});
      EXPECT_EQ(packed.scale, scale);
      EXPECT_EQ(packed.codes[0], this->kHighest);
      EXPECT_EQ(packed.codes[1], code) << scale;
    }
  }
}

// On both sides of each middle between two places, by as much as y may be rounded.
TYPED_TEST(Block8, FloatsBetweenTwoPlacesGoToTheNearerOne) {
  const double top = this->kLowest < 0 ? 247 : 63487;
  for (int code = 0; code < this->kHighest; ++code) {
    const double y = 1 + top * (this->place(code) + this->place(code + 1)) / 2;
    const auto below = static_cast<float>((y * (1 - 1e-6) - 1) / top);
    const auto above = static_cast<float>((y * (1 + 1e-6) - 1) / top);
    if (code > 0 || this->kLowest < 0) {
      EXPECT_EQ(this->pack({1, below}).codes[1], code);
    }
    EXPECT_EQ(this->pack({1, above}).codes[1], code + 1);
    if (this->kLowest < 0) {
      EXPECT_EQ(this->pack({1, -above}).codes[1], -code - 1);
    }
  }
}

TYPED_TEST(Block8, ValuesOfAllSizesGoToTheNearestPlace) {
  std::mt19937 random(1);
  for (int block = 0; block < 100; ++block) {
    const std::vector<float> values = this->random_values(random, 64, 3e-4F);
    const auto packed = this->pack(values);
    for (size_t i = 0; i < values.size(); ++i) {
      const double ratio = static_cast<double>(values[i] / packed.scale);
      const int nearest = this->nearest(ratio), expected = nearest == 0 && this->kLowest == 0 ? 1 : nearest;
      const auto distance = [&](int code) { return std::abs(this->place(code) - ratio); };
      // In the middle between two, rounding decides.
      EXPECT_NEAR(distance(packed.codes[i]), distance(expected), 1e-6 * std::abs(ratio)) << values[i];
    }
  }
}

TYPED_TEST(Block8, ErrorsAreWithinTheBoundThatTheHeaderTells) {
  const float bound = this->kLowest < 0 ? 4.001F / 247 : 1024.1F / 63487;
  std::mt19937 random(2);
  for (int block = 0; block < 100; ++block) {
    const std::vector<float> values = this->random_values(random, 64, 7);
    const auto packed = this->pack(values);
    const std::vector<float> found = this->unpack(packed);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_LE(std::abs(found[i] - values[i]), bound * packed.scale);
  }
}

TYPED_TEST(Block8, PackedOnceStaysAsItIs) {
  std::mt19937 random(3);
  for (size_t count : {1, 5, 63, 64}) {
    const auto once = this->pack(this->random_values(random, count, 1e-9F));
    const auto twice = this->pack(this->unpack(once));
    EXPECT_EQ(once.codes, twice.codes);
    EXPECT_EQ(once.scale, twice.scale);
  }
}

TYPED_TEST(Block8, ZerosStayZeros) {
  EXPECT_THAT(this->unpack(this->pack({0, -0.0F, 0})), ::testing::ElementsAre(0, 0, 0));
  const auto among_others = this->pack({0, 5, 0});
  EXPECT_THAT(among_others.codes, ::testing::ElementsAre(0, this->kHighest, 0));
}

TEST(Block8Map, ASecondMomentNeverVanishesAndAFirstOneMay) {
  const std::vector<float> values{1, 1e-20F};
  std::vector<uint8_t> second(2);
  std::vector<int8_t> first(2);
  block8_pack(values, second.data());
  block8_pack(values, first.data());
  EXPECT_EQ(second[1], 1);
  EXPECT_EQ(first[1], 0);
}

// Below, a scale's inverse would be infinite.
TYPED_TEST(Block8, NoScaleIsBelowTheSmallestOne) {
  const float least = 0x1p-112F;
  EXPECT_EQ(this->pack({0, 0}).scale, least);
  EXPECT_THAT(this->unpack(this->pack({least, 0})), ::testing::ElementsAre(least, 0));
  const float smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(this->pack({smallest, 0}).codes[0], this->kLowest < 0 ? 0 : 1);
}

TYPED_TEST(Block8, WhatIsNotFiniteIsNotHidden) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float value : {infinity, nan}) {
    for (float found : this->unpack(this->pack({1, value, 0.5F}))) EXPECT_FALSE(std::isfinite(found)) << value;
  }
}

}  // namespace
}  // namespace fsdp::optim
