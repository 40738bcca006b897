#include "plan/sharded_setup.h"

#include <gmock/gmock.h>

#include <functional>

#include "fsdp/error.h"
#include "plan/chain.h"

namespace fsdp::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ShardedSetup, GivesTheLimitsOfItsStrategy) {
  const RankToSimulate full =
      rank_of({.strategy = 0, .units = 7, .ranks = 4, .shards = 4, .buffers = 3, .prefetch = 2});
  EXPECT_EQ(full.limits.buffers, 3);
  EXPECT_EQ(full.limits.prefetch, 2);
  EXPECT_EQ(full.limits.gradient_buffers, 2);
  EXPECT_EQ(full.limits.full_until, FullUntil::BufferNeeded);
  const RankToSimulate none = rank_of({.strategy = 3, .units = 7, .ranks = 4});
  EXPECT_EQ(none.limits.gradient_buffers, 2);
  EXPECT_TRUE(none.facts.one_sided);
  EXPECT_TRUE(none.facts.replicated());
}

// Only NoShard's gradients become their own sums, and in shared memory alone.
TEST(ShardedSetup, GivesUnitsGradientBuffersOfTheirOwnWhereSumsAreInPlace) {
  const auto buffers = [](size_t strategy, int shards, GatherWay way) {
    return rank_of({.strategy = strategy, .units = 7, .ranks = 4, .shards = shards, .way = way})
        .limits.gradient_buffers;
  };
  for (const GatherWay way : {GatherWay::SharedMemory, GatherWay::Messages, GatherWay::Streams}) {
    EXPECT_EQ(buffers(2, 4, way), 2);
    EXPECT_EQ(buffers(3, 1, way), way == GatherWay::SharedMemory ? 7 : 2);
    EXPECT_EQ(buffers(4, 1, way), 2);
  }
}

TEST(SteadyTotals, OfManyMicroBatchesAreThoseOfAllOfThem) {
  TrainingStep step = chain_step(6, {.gather = 6, .reduce = 9});
  step.micro_batches = 11;
  for (size_t strategy = 0; strategy < schedule::kStrategies.size(); ++strategy) {
    for (const bool is_local : {false, true}) {
      step.accumulates_locally = is_local;
      const bool is_hybrid = strategy >= 4;
      RankToSimulate rank = rank_of({.strategy = strategy,
                                     .units = 6,
                                     .ranks = 4,
                                     .shards = strategy == 3 ? 1
                                               : is_hybrid   ? 2
                                                             : 4});
      rank.durations = {.gather = std::vector(6, 6.0), .reduce = std::vector(6, 9.0), .update = std::vector(6, 0.5)};
      rank.durations.slowdown = 0.25;
      const StepTotals found = steady_totals(rank, step);
      rank.events = events_of(step);
      const StepTotals all = simulate_steady_step(rank).totals;
      EXPECT_NEAR(found.step, all.step, 1e-6) << strategy;
      EXPECT_NEAR(found.compute, all.compute, 1e-6) << strategy;
      EXPECT_NEAR(found.exposed(), all.exposed(), 1e-6) << strategy;
    }
  }
}

TEST(ShardedSetup, RefusesWhatShardWould) {
  const auto refusal = [](const ShardedSetup& setup, const char* message) {
    EXPECT_THAT([&] { rank_of(setup); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refusal({.strategy = 6}, "found strategy 6");
  refusal({.units = 0}, "found 0 units");
  refusal({.ranks = 0}, "a group of 1 ranks on 0");
  refusal({.ranks = 4, .shards = 3}, "a group of 3 ranks on 4");
  refusal({.buffers = 1}, "found buffers 1");
  refusal({.prefetch = -1}, "found prefetch -1");
}

}  // namespace
}  // namespace fsdp::plan
