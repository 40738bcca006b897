#include "collectives/ordered_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace fsdp::collectives {
namespace {

using layout::Range;

std::vector<float> random_values(size_t numel, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(numel);
  for (float& value : values) value = normal(random);
  return values;
}

// The rule, one element at a time.
void add_naively(std::vector<float>& sum, std::vector<uint8_t>& held, const std::vector<Range>& segments,
                 const std::vector<Addend>& addends) {
  for (size_t segment = 0; segment < segments.size(); ++segment)
    for (const Addend& addend : addends) {
      if (!addend.present[segment]) continue;
      for (int64_t i = segments[segment].begin; i < segments[segment].end; ++i)
        sum[i] = held[segment] ? sum[i] + static_cast<const float*>(addend.values)[i]
                               : static_cast<const float*>(addend.values)[i];
      held[segment] = 1;
    }
}

void expect_as_naive(const std::vector<Range>& segments, size_t ranks, uint64_t flags, std::mt19937& random) {
  size_t numel = segments.empty() ? 0 : segments.back().end;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<uint8_t>> present(ranks, std::vector<uint8_t>(segments.size()));
  std::vector<uint8_t> held(segments.size());
  for (auto& flag : held) flag = flags & 1, flags >>= 1;
  for (auto& rank : present)
    for (auto& flag : rank) flag = flags & 1, flags >>= 1;
  for (size_t rank = 0; rank < ranks; ++rank) values.push_back(random_values(numel, random));
  std::vector<Addend> addends;
  for (size_t rank = 0; rank < ranks; ++rank) addends.push_back({values[rank].data(), present[rank]});
  std::vector<float> expected = random_values(numel, random), found = expected;
  std::vector<uint8_t> expected_held = held;
  add_naively(expected, expected_held, segments, addends);
  add_in_order(found.data(), held, segments, addends);
  EXPECT_EQ(held, expected_held);
  for (const Range& segment : segments)
    for (int64_t i = segment.begin; i < segment.end; ++i) ASSERT_EQ(found[i], expected[i]) << i;
}

TEST(AddInOrder, MayTakeThePlaceOfAnyAddend) {
  std::mt19937 random(3);
  const std::vector<Range> segments{{0, 100}, {128, 9000}};
  for (size_t ranks : {1, 2, 3, 5, 9})
    for (size_t own = 0; own < ranks; ++own)
      for (size_t missing = 0; missing <= ranks; ++missing) {  // a rank without the second gradient, or none
        std::vector<std::vector<float>> values;
        std::vector<std::vector<uint8_t>> present(ranks, {1, 1});
        if (missing < ranks) present[missing][1] = 0;
        std::vector<Addend> addends;
        for (size_t rank = 0; rank < ranks; ++rank) values.push_back(random_values(9000, random));
        for (size_t rank = 0; rank < ranks; ++rank) addends.push_back({values[rank].data(), present[rank]});
        std::vector<float> expected(9000);
        std::vector<uint8_t> held(2), expected_held(2);
        add_naively(expected, expected_held, segments, addends);
        add_in_order(values[own].data(), held, segments, addends);
        EXPECT_EQ(held, expected_held);
        for (size_t segment = 0; segment < segments.size(); ++segment) {
          if (!held[segment]) continue;
          for (int64_t i = segments[segment].begin; i < segments[segment].end; ++i)
            ASSERT_EQ(values[own][i], expected[i]) << ranks << " ranks, in place of " << own << ", element " << i;
        }
      }
}

TEST(AddInOrder, TreatsEveryPatternOfFlagsAsTheRuleSays) {
  std::mt19937 random(1);
  for (size_t ranks : {1, 2, 3})
    for (uint64_t flags = 0; flags < (uint64_t{1} << (3 * (ranks + 1))); ++flags)
      expect_as_naive({{0, 5}, {64, 64}, {64, 130}}, ranks, flags, random);
}

TEST(AddInOrder, AddsManyRanksAndLongShards) {
  std::mt19937 random(2);
  for (size_t ranks = 1; ranks <= 10; ++ranks) {
    expect_as_naive({{0, 9000}, {9024, 20001}}, ranks, ~uint64_t{0}, random);
    expect_as_naive({{0, 9000}, {9024, 20001}}, ranks, ~uint64_t{3}, random);
    for (int i = 0; i < 20; ++i) expect_as_naive({{0, 100}, {128, 4300}, {4352, 4400}}, ranks, random(), random);
  }
}

TEST(AddInOrder, LeavesTheSumAloneWhereNobodyHasAGradient) {
  std::vector<float> sum{1, 2}, gradient{5, 6};
  std::vector<uint8_t> held{1, 0}, present{0, 1};
  std::vector<Range> segments{{0, 1}, {1, 2}};
  Addend addend{gradient.data(), present};
  add_in_order(sum.data(), held, segments, {&addend, 1});
  EXPECT_EQ(sum, (std::vector<float>{1, 6}));
  EXPECT_EQ(held, (std::vector<uint8_t>{1, 1}));
}

TEST(AddInOrder, TakesNoSegmentsAndNoRanks) {
  std::vector<uint8_t> held;
  add_in_order(nullptr, held, {}, {});
  std::vector<uint8_t> one{0};
  std::vector<Range> segments{{0, 4}};
  float sum[4] = {};
  add_in_order(sum, one, segments, {});
  EXPECT_EQ(one[0], 0);
}

TEST(OrderedSum, AddsSixteenBitGradientsInFp32) {
  // 1 + 1/128 is the next bf16 after 1; 1 + 1/1024 the next fp16: neither sum fits into 16 bits.
  const std::vector<uint16_t> wide{0x3f81, 0xbf80}, half{0x3c01, 0xbc00};
  const std::vector<Range> segments{{0, 2}};
  const std::vector<uint8_t> present{1};
  for (auto [bits, type, next] : {std::tuple(wide, ElementType::BFloat16, 1 + 1.0f / 128),
                                  std::tuple(half, ElementType::Float16, 1 + 1.0f / 1024)}) {
    const std::vector<Addend> addends{{bits.data(), present}, {bits.data(), present}, {bits.data(), present}};
    std::vector<float> sum{1e-3f, 0};
    std::vector<uint8_t> held{1};
    add_in_order(sum.data(), held, segments, addends, type);
    EXPECT_EQ(sum[0], ((1e-3f + next) + next) + next);
    EXPECT_EQ(sum[1], -3);
  }
}

// Alone and in sums, at the beginning of a block and in its rest.
TEST(OrderedSum, WidensEveryFp16Value) {
  std::vector<_Float16> values;
  for (uint32_t bits = 0; bits < (1u << 16); ++bits)
    values.push_back(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
  values.insert(values.end(), {1, 2, 3});
  const std::vector<Range> segments{{0, static_cast<int64_t>(values.size())}};
  const std::vector<uint8_t> present{1};
  for (size_t ranks = 1; ranks <= 5; ++ranks) {
    const std::vector<Addend> addends(ranks, {values.data(), present});
    for (uint8_t holds : {0, 1}) {
      std::vector<float> sum(values.size(), 0.1f);
      std::vector<uint8_t> held{holds};
      add_in_order(sum.data(), held, segments, addends, ElementType::Float16);
      for (size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<float>(values[i]);
        float expected = holds ? 0.1f + value : value;
        for (size_t rank = 1; rank < ranks; ++rank) expected += value;
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(sum[i])) << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(sum[i]), std::bit_cast<uint32_t>(expected)) << i << ", " << ranks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fsdp::collectives
