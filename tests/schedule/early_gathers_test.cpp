// Gathers for the next micro-batch while the backward before it still runs.
#include <gmock/gmock.h>

#include "schedule/support.h"

namespace fsdp::schedule {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kBlocks = 6;

std::vector<UnitId> early(const Schedule& schedule) {
  std::vector<UnitId> units;
  for (UnitId unit = 0; unit < kBlocks; ++unit) {
    if (schedule.progress(unit).gathered_next()) units.push_back(unit);
  }
  return units;
}

// The forward and backward of a chain, in which the shard of each unit changes as soon as the backward is done with it.
void run_changing_shards(Player& player) {
  for (UnitId block = 0; block < kBlocks; ++block) player.forward({block});
  std::vector<bool> changed(kBlocks);
  const auto change = [&] {
    for (UnitId unit = 0; unit < kBlocks; ++unit) {
      if (changed[unit] || !player.schedule.may_leave(unit)) continue;
      player.add(player.schedule.leave(unit));
      player.add(player.schedule.shard_changed(unit));
      changed[unit] = true;
    }
  };
  for (UnitId block = kBlocks - 1; block >= 0; --block) {
    player.backward(block);
    change();
    player.gradients(block, 2, 2);
    change();
  }
}

struct Case {
  Limits limits;
  std::vector<UnitId> early;
};

TEST(EarlyGathers, AreOfUnitsThatComeFirstWhereTheBackwardLeavesRoom) {
  for (const auto& [limits, expected] :
       {Case{{.units = kBlocks, .buffers = 6, .prefetch = 5}, {2, 3, 4, 5}},
        Case{{.units = kBlocks, .buffers = 6, .prefetch = 3}, {2, 3}},
        Case{{.units = kBlocks, .buffers = 3, .prefetch = 2}, {2}}, Case{{.units = kBlocks}, {}},
        Case{{.units = kBlocks, .full_until = FullUntil::EndOfBackward}, {2, 3, 4, 5}}}) {
    SCOPED_TRACE(limits.buffers);
    Player player(limits);
    block_step(player, kBlocks);
    player.step(kBlocks);
    for (int step = 0; step < 2; ++step) {
      run_changing_shards(player);
      EXPECT_EQ(early(player.schedule), expected);
      player.end_backward();
      EXPECT_EQ(early(player.schedule), expected) << "after the backward";
      player.step(kBlocks);
      EXPECT_THAT(early(player.schedule), IsEmpty());
      for (UnitId unit : expected) EXPECT_EQ(player.schedule.state(unit), Residency::State::Gathering);
      player.take();
    }
    EXPECT_EQ(player.schedule.buffers(), limits.full_until == FullUntil::BufferNeeded ? limits.buffers : kBlocks);
  }
}

TEST(EarlyGathers, LeaveNothingToGatherWhereThereIsABufferForEachUnit) {
  Player player({.units = kBlocks, .buffers = kBlocks, .prefetch = kBlocks - 1});
  block_step(player, kBlocks);
  player.step(kBlocks);
  run_changing_shards(player);
  player.end_backward();
  player.take();
  player.step(kBlocks);
  EXPECT_THAT(player.take(), ElementsAre("Gather 0", "Gather 1"));
  run_changing_shards(player);
  EXPECT_EQ(player.count(Action::Kind::Gather), 4);  // the next early ones
}

TEST(EarlyGathers, OfABackwardThatThrewEndWhenShardsChangeTwice) {
  Player player({.units = kBlocks, .buffers = kBlocks, .prefetch = kBlocks - 1});
  block_step(player, kBlocks);
  player.step(kBlocks);
  run_changing_shards(player);
  player.abandon_backward();
  EXPECT_THAT(early(player.schedule), ElementsAre(2, 3, 4, 5));
  player.add(player.schedule.shards_change());
  player.take();
  player.add(player.schedule.shards_change());
  EXPECT_THAT(player.take(), ElementsAre("WaitGather 2", "WaitGather 3", "WaitGather 4", "WaitGather 5"));
  for (UnitId unit = 0; unit < kBlocks; ++unit) EXPECT_EQ(player.schedule.state(unit), Residency::State::Sharded);
}

TEST(EarlyGathers, AreForeseen) {
  Player player({.units = kBlocks, .buffers = kBlocks, .prefetch = kBlocks - 1});
  for (int step = 0; step < 2; ++step) {
    player.actions.clear();
    run_changing_shards(player);
    player.end_backward();
    player.step(kBlocks);
  }
  for (const Action& action : player.actions) {
    if (action.kind == Action::Kind::Gather) EXPECT_TRUE(action.foreseen) << to_string(action);
  }
  EXPECT_THAT(player.take(), Contains(StartsWith("Gather 5")));
}

}  // namespace
}  // namespace fsdp::schedule
