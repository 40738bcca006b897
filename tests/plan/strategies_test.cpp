#include "plan/strategies.h"

#include <fsdp/error.h>
#include <fsdp/plan.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

TEST(Strategies, DivideTheModelAmongTheirRanks) {
  const auto group = [](const char* strategy, int64_t given = 0) { return sharding_of(strategy, 16, 4, given).group; };
  EXPECT_EQ(group("full-shard"), 16);
  EXPECT_EQ(group("shard-grad-op"), 16);
  EXPECT_EQ(group("shard-optimizer"), 16);
  EXPECT_EQ(group("no-shard"), 1);
  EXPECT_EQ(group("hybrid-shard"), 4);
  EXPECT_EQ(group("hybrid-shard-grad-op"), 4);
  EXPECT_EQ(group("hybrid-shard", 8), 8);
  EXPECT_EQ(group("full-shard", 2), 2);
  EXPECT_EQ(group("no-shard", 1), 1);
}

TEST(Strategies, KeepUnitsFullForAUseABackwardOrAStep) {
  EXPECT_TRUE(sharding_of("full-shard", 2).shares_buffers);
  EXPECT_TRUE(sharding_of("hybrid-shard", 2).shares_buffers);
  for (const char* until_backward_ends : {"shard-grad-op", "hybrid-shard-grad-op"}) {
    EXPECT_FALSE(sharding_of(until_backward_ends, 2).shares_buffers);
    EXPECT_FALSE(sharding_of(until_backward_ends, 2).full_for_the_step);
  }
  for (const char* whole_step : {"shard-optimizer", "no-shard"}) {
    EXPECT_FALSE(sharding_of(whole_step, 2).shares_buffers);
    EXPECT_TRUE(sharding_of(whole_step, 2).full_for_the_step);
  }
}

TEST(Strategies, RefuseNonsense) {
  const auto refusal = [](const char* strategy, int64_t ranks, int64_t hosts = 1, int64_t group = 0) {
    return message_of<Error>([&] { sharding_of(strategy, ranks, hosts, group); });
  };
  EXPECT_THAT(refusal("fullshard", 2), HasSubstr("expected one of full-shard, shard-grad-op, shard-optimizer"));
  EXPECT_THAT(refusal("full-shard", 0), HasSubstr("found 0 ranks"));
  EXPECT_THAT(refusal("hybrid-shard", 8, 0), HasSubstr("found 0 hosts for 8 ranks"));
  EXPECT_THAT(refusal("hybrid-shard", 8, 1, 5), HasSubstr("Use 1 for replicas, or 8"));
  EXPECT_THAT(refusal("no-shard", 8, 1, 8), HasSubstr("Leave it at 0"));
  EXPECT_THAT(refusal("full-shard", 8, 1, -8), HasSubstr("found a group of -8 ranks"));
}

}  // namespace
}  // namespace fsdp::plan
