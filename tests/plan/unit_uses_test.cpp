#include "plan/unit_uses.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

UnitUses sum_of(const char* strategy, int64_t units, int64_t micro_batches = 1, int64_t buffers = 2) {
  Sharding sharding = sharding_of(strategy, 4, 2);
  sharding.buffers = buffers;
  UnitUses sum;
  for (const auto& [gathers, reductions] : unit_uses(units, sharding, micro_batches)) {
    sum.gathers += gathers;
    sum.reductions += reductions;
  }
  return sum;
}

// The row of a GPT of five blocks in docs/communication.md, which the engine itself keeps.
TEST(UnitUses, AreThoseOfTheEngine) {
  EXPECT_EQ(sum_of("full-shard", 6), (UnitUses{11, 6}));
  EXPECT_EQ(sum_of("shard-grad-op", 6), (UnitUses{6, 6}));
  EXPECT_EQ(sum_of("shard-optimizer", 6), (UnitUses{6, 6}));
  EXPECT_EQ(sum_of("no-shard", 6), (UnitUses{0, 6}));
  EXPECT_EQ(sum_of("hybrid-shard", 6), (UnitUses{11, 6}));
  EXPECT_EQ(sum_of("hybrid-shard-grad-op", 6), (UnitUses{6, 6}));
  EXPECT_EQ(sum_of("full-shard", 6, 2), (UnitUses{22, 12}));
  EXPECT_EQ(sum_of("shard-grad-op", 6, 2), (UnitUses{12, 12}));
  EXPECT_EQ(sum_of("shard-optimizer", 6, 2), (UnitUses{6, 12}));
}

TEST(UnitUses, AreFewerWithMoreBuffers) {
  EXPECT_EQ(sum_of("full-shard", 6, 1, 6), (UnitUses{6, 6}));
  EXPECT_EQ(sum_of("full-shard", 6, 1, INT64_MAX), (UnitUses{6, 6}));
  EXPECT_EQ(sum_of("full-shard", 1), (UnitUses{1, 1}));
}

TEST(UnitUses, OfManyUnitsAreCountedAtOnce) { EXPECT_EQ(sum_of("full-shard", 100'000), (UnitUses{199'999, 100'000})); }

TEST(UnitUses, RefuseNonsense) {
  const auto refusal = [](int64_t units, int64_t micro_batches) {
    return message_of<Error>([&] { unit_uses(units, {}, micro_batches); });
  };
  EXPECT_THAT(refusal(0, 1), HasSubstr("found 0 units"));
  EXPECT_THAT(refusal(INT64_MAX, 1), HasSubstr("expected 1 to 1048576"));
  EXPECT_THAT(refusal(1, 0), HasSubstr("found 0 micro-batches"));
  EXPECT_THAT(message_of<Error>([] { unit_uses(1, {.group = 0}); }), HasSubstr("found a group of 0 ranks"));
}

}  // namespace
}  // namespace fsdp::plan
