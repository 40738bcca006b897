// The differences between the clocks of hosts that are made up here.
#include "training/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::World;
using fsdp::testing::run_ranks;

constexpr int64_t kSecond = 1'000'000'000;

// A clock that is ahead of this machine's.
HostClock clock_ahead(const std::string& name, int64_t ahead) {
  return {.name = name, .now = [ahead, now = host_clock().now] { return now() + ahead; }};
}

TEST(ClockOffset, IsNoneOnOneHost) {
  run_ranks(3, [](World& world) {
    for (const ClockOffset& offset : clock_offsets(world)) {
      EXPECT_EQ(offset.nanoseconds, 0);
      EXPECT_EQ(offset.error, 0);
    }
  });
}

// Two ranks on each host. However long messages take, the error is at most half a round trip.
TEST(ClockOffset, IsFoundWithinItsError) {
  run_ranks(6, [](World& world) {
    const int64_t ahead[] = {0, 0, 7200 * kSecond, 7200 * kSecond, -30 * kSecond, -30 * kSecond};
    const int host = world.rank() / 2;
    const std::vector<ClockOffset> offsets =
        clock_offsets(world, clock_ahead("host " + std::to_string(host), ahead[world.rank()]));
    ASSERT_EQ(offsets.size(), 6);
    for (size_t rank = 0; rank < offsets.size(); ++rank) {
      EXPECT_LE(std::abs(offsets[rank].nanoseconds + ahead[rank]), offsets[rank].error) << "rank " << rank;
      EXPECT_EQ(offsets[rank].error > 0, rank >= 2);
      EXPECT_LT(offsets[rank].error, 10 * kSecond) << "so that the first line says something";
    }
    EXPECT_EQ(offsets[2].nanoseconds, offsets[3].nanoseconds) << "measured once on each host";
  });
}

// Of a host whose ranks are apart, the first one measures.
TEST(ClockOffset, KnowsRanksOfAHostByTheirClock) {
  run_ranks(4, [](World& world) {
    const bool is_other = world.rank() % 2 == 1;
    const std::vector<ClockOffset> offsets =
        clock_offsets(world, clock_ahead(is_other ? "b" : "a", is_other ? kSecond : 0));
    EXPECT_EQ(offsets[2].nanoseconds, 0);
    EXPECT_EQ(offsets[1].nanoseconds, offsets[3].nanoseconds);
    EXPECT_LE(std::abs(offsets[3].nanoseconds + kSecond), offsets[3].error);
  });
}

}  // namespace
}  // namespace trainer
