// Schedules that were changed at random. The check and an independent one agree on each.
#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "stages/rewrites.h"
#include "stages/support.h"
#include "stages/validate.h"
#include "support/message_of.h"

namespace fsdp::stages {
namespace {

using ::testing::ContainsRegex;

// Swaps two actions, drops one, does one twice, or moves one.
void mutate(StageSchedule& schedule, std::mt19937& random) {
  std::vector<StageAction>& actions = schedule.ranks[random() % schedule.ranks.size()];
  const size_t i = random() % actions.size(), j = random() % actions.size();
  const StageAction action = actions[i];
  switch (random() % 5) {
    case 0:
      std::swap(actions[i], actions[j]);
      break;
    case 1:
      std::swap(actions[i], actions[std::min(i + 1, actions.size() - 1)]);
      break;
    case 2:
      actions.erase(actions.begin() + static_cast<ptrdiff_t>(i));
      break;
    case 3:
      actions.insert(actions.begin() + static_cast<ptrdiff_t>(j), action);
      break;
    default:
      actions.erase(actions.begin() + static_cast<ptrdiff_t>(i));
      actions.insert(actions.begin() + static_cast<ptrdiff_t>(std::min(j, actions.size())), action);
  }
}

// Moves a receive by one place to the front or to the back.
void move_receive(StageSchedule& schedule, std::mt19937& random) {
  while (true) {
    std::vector<StageAction>& actions = schedule.ranks[random() % schedule.ranks.size()];
    const size_t i = random() % actions.size(), j = i + 1 - 2 * (random() % 2);
    if (j >= actions.size() || !is_receive(actions[i].kind)) continue;
    std::swap(actions[i], actions[j]);
    return;
  }
}

struct Verdicts {
  int valid = 0, refused = 0;

  void add(const StageSchedule& schedule) {
    const std::string message = testing::message_of<Error>([&] { validate(schedule); });
    const bool accepted = message == "no error";
    EXPECT_EQ(accepted, is_valid(schedule)) << to_csv(schedule) << message;
    ++(accepted ? valid : refused);
    if (!accepted) {
      EXPECT_THAT(message, ContainsRegex("rank [0-9]+, position [0-9]+ \\([^)]+\\): .*expected")) << to_csv(schedule);
    }
  }
};

TEST(MutatedSchedules, AreJudgedAsByTheGraph) {
  std::mt19937 random(3);
  Verdicts verdicts;
  for (const NamedSchedule& named : named_schedules()) {
    for (const Counts& counts : {Counts{1, 1, 3}, Counts{2, 1, 3}, Counts{3, 1, 4}, Counts{2, 2, 3}}) {
      if (named.name == "OneForwardOneBackward" && counts.stages_per_rank > 1) continue;
      const StageSchedule passes = named.generate(counts.ranks, counts.stages_per_rank, counts.micro_batches);
      for (const StageSchedule& schedule : {passes, add_messages(passes)}) {
        for (int i = 0; i < 60; ++i) {
          StageSchedule mutated = schedule;
          for (unsigned changes = 1 + random() % 2; changes > 0; --changes) mutate(mutated, random);
          verdicts.add(mutated);
        }
      }
    }
  }
  EXPECT_GT(verdicts.valid, 100);
  EXPECT_GT(verdicts.refused, 1000);
}

TEST(MutatedSchedules, WithAReceiveElsewhereAreJudgedAsByTheGraph) {
  std::mt19937 random(4);
  Verdicts verdicts;
  for (const NamedSchedule& named : named_schedules()) {
    const StageSchedule schedule = add_messages(named.generate(3, 1, 5));
    for (int i = 0; i < 100; ++i) {
      StageSchedule mutated = schedule;
      for (int moves = 0; moves < 3; ++moves) move_receive(mutated, random);
      verdicts.add(mutated);
    }
  }
  EXPECT_GT(verdicts.valid, 50);
  EXPECT_GT(verdicts.refused, 50);
}

}  // namespace
}  // namespace fsdp::stages
