// Gathers and releases of stages whose parameters are shards.
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

TEST(Gathers, SurroundAllReadsOfAStage) {
  EXPECT_EQ(to_csv(add_gathers(interleaved(1, 2, 2))),
            "0UNSHARD,1UNSHARD,0F0,1F0,1B0,0F1,0B0,1F1,1B1,1RESHARD,0B1,0RESHARD\n");
}

TEST(Gathers, AreReleasedBeforeWeightGradients) {
  EXPECT_EQ(to_csv(add_gathers(read_csv("0F0,0I0,0W0\n"))), "0UNSHARD,0F0,0I0,0RESHARD,0W0\n");
}

TEST(Gathers, OfAllSchedulesAreValidAndOnePerStage) {
  for (const NamedSchedule& named : named_schedules()) {
    for_all_counts(named, {4, 3, 5}, [&](Counts counts, const StageSchedule& schedule) {
      SCOPED_TRACE(std::string(named.name) + ", " + counts.text());
      for (const StageSchedule& complete : {add_messages(add_gathers(schedule)), add_gathers(add_messages(schedule))}) {
        ASSERT_NO_THROW(validate(complete));
        EXPECT_EQ(count_of(complete, Kind::Gather), schedule.stages());
        EXPECT_EQ(count_of(complete, Kind::Release), schedule.stages());
      }
    });
  }
}

TEST(Gathers, BeginOnePassAheadOfTheirUse) {
  const StageSchedule schedule = add_gathers(add_messages(interleaved(2, 3, 6)));
  int ahead = 0;
  for (const auto& actions : schedule.ranks) {
    int passes = 0;
    std::vector<int> gathered(schedule.rank_of_stage.size(), -1);
    for (const StageAction& action : actions) {
      if (action.kind == Kind::Gather) gathered[action.stage] = passes;
      if (!is_pass(action.kind)) continue;
      if (int& gather = gathered[action.stage]; gather >= 0) {
        EXPECT_EQ(gather, std::max(passes - 1, 0)) << to_string(action);
        ahead += passes > 0;
        gather = -1;
      }
      ++passes;
    }
  }
  EXPECT_EQ(ahead, 4) << "all stages but the first of each rank";
}

TEST(Gathers, OfRandomSchedulesAreValid) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const StageSchedule schedule = random_schedule(random);
    EXPECT_NO_THROW(validate(add_messages(add_gathers(schedule)))) << to_csv(schedule);
  }
}

TEST(Gathers, StandAroundPassesThatRunAtTheSameTime) {
  EXPECT_EQ(to_csv(add_gathers(read_csv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,0B1\n"))),
            "0UNSHARD,1UNSHARD,0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,1RESHARD,0B1,0RESHARD\n");
}

}  // namespace
}  // namespace fsdp::stages
