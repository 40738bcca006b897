// Gathers, releases and reductions of stages whose parameters are shards.
#include <gmock/gmock.h>

#include <random>

#include "stages/rewrites.h"
#include "stages/support.h"
#include "stages/validate.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

int count_of(const StageSchedule& schedule, Kind kind) {
  int count = 0;
  for (const auto& actions : schedule.ranks)
    count += static_cast<int>(std::ranges::count(actions, kind, &StageAction::kind));
  return count;
}

TEST(ShardActions, OncePerStepSurroundAllReadsOfAStage) {
  EXPECT_EQ(to_csv(add_shard_actions(interleaved(1, 2, 2), GatherEvery::Step)),
            "0UNSHARD,1UNSHARD,0F0,1F0,1B0,0F1,0B0,1F1,1B1,1RESHARD,1REDUCE_GRAD,0B1,0RESHARD,0REDUCE_GRAD\n");
}

TEST(ShardActions, OncePerMicroBatchSurroundEachRead) {
  EXPECT_EQ(to_csv(add_shard_actions(read_csv("0F0,1F0,1B0,0B0\n"), GatherEvery::MicroBatch)),
            "0UNSHARD,1UNSHARD,0F0,0RESHARD,1F0,1RESHARD,1UNSHARD,0UNSHARD,1B0,1RESHARD,1REDUCE_GRAD,0B0,0RESHARD,"
            "0REDUCE_GRAD\n");
}

TEST(ShardActions, LetWeightGradientsReadNoParameters) {
  for (GatherEvery every : {GatherEvery::Step, GatherEvery::MicroBatch}) {
    EXPECT_THAT(to_csv(add_shard_actions(read_csv("0F0,0I0,0W0\n"), every)),
                ::testing::EndsWith("0I0,0RESHARD,0W0,0REDUCE_GRAD\n"));
  }
}

TEST(ShardActions, OfAllSchedulesAreValidAndAsManyAsSaid) {
  for (const NamedSchedule& named : named_schedules()) {
    for_all_counts(named, {4, 3, 5}, [&](Counts counts, const StageSchedule& schedule) {
      SCOPED_TRACE(std::string(named.name) + ", " + counts.text());
      for (GatherEvery every : {GatherEvery::Step, GatherEvery::MicroBatch}) {
        const StageSchedule complete = add_messages(add_shard_actions(schedule, every));
        ASSERT_NO_THROW(validate(complete));
        const int gathers = every == GatherEvery::Step ? 1 : 2 * counts.micro_batches;
        EXPECT_EQ(count_of(complete, Kind::Gather), gathers * schedule.stages());
        EXPECT_EQ(count_of(complete, Kind::Release), gathers * schedule.stages());
        EXPECT_EQ(count_of(complete, Kind::Reduce), schedule.stages());
      }
    });
  }
}

// The pass before a use is that of another stage: the gather stands before it.
TEST(ShardActions, BeginOnePassAhead) {
  const StageSchedule schedule = add_shard_actions(interleaved(2, 3, 6), GatherEvery::MicroBatch);
  int ahead = 0;
  for (const auto& actions : schedule.ranks) {
    std::vector<StageAction> passes;
    std::vector<size_t> gathered(schedule.rank_of_stage.size());
    for (const StageAction& action : actions) {
      if (action.kind == Kind::Gather) gathered[action.stage] = passes.size();
      if (!is_pass(action.kind)) continue;
      const bool other = !passes.empty() && passes.back().stage != action.stage;
      EXPECT_EQ(gathered[action.stage], passes.size() - other) << to_string(action);
      ahead += other;
      passes.push_back(action);
    }
  }
  EXPECT_GT(ahead, 20);
}

TEST(ShardActions, OfRandomSchedulesAreValid) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const StageSchedule schedule = random_schedule(random);
    for (GatherEvery every : {GatherEvery::Step, GatherEvery::MicroBatch})
      EXPECT_NO_THROW(validate(add_messages(add_shard_actions(schedule, every)))) << to_csv(schedule);
  }
}

TEST(ShardActions, StandAroundPassesThatRunAtTheSameTime) {
  EXPECT_EQ(
      to_csv(add_shard_actions(read_csv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,0B1\n"), GatherEvery::MicroBatch)),
      "0UNSHARD,1UNSHARD,0F0,0RESHARD,0UNSHARD,1F0,1RESHARD,1UNSHARD,(0F1;1B0)OVERLAP_F_B,0RESHARD,1RESHARD,"
      "1UNSHARD,0UNSHARD,1F1,1RESHARD,1UNSHARD,0B0,0RESHARD,0UNSHARD,1B1,1RESHARD,1REDUCE_GRAD,0B1,0RESHARD,"
      "0REDUCE_GRAD\n");
}

}  // namespace
}  // namespace fsdp::stages
