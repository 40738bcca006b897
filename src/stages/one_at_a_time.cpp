#include "stages/looped_stages.h"
#include "stages/schedules.h"

namespace fsdp::stages {

StageSchedule one_at_a_time(int ranks, int stages_per_rank, int micro_batches) {
  using Kind = StageAction::Kind;
  StageSchedule schedule = looped_stages(ranks, stages_per_rank, micro_batches);
  const auto add = [&](Kind kind, int stage, int micro_batch) {
    schedule.ranks[stage % ranks].push_back({.kind = kind, .stage = stage, .micro_batch = micro_batch});
  };
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    for (int stage = 0; stage < schedule.stages(); ++stage) add(Kind::Forward, stage, micro_batch);
    for (int stage = schedule.stages() - 1; stage >= 0; --stage) add(Kind::Backward, stage, micro_batch);
  }
  return schedule;
}

}  // namespace fsdp::stages
