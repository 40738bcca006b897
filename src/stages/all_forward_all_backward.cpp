#include "stages/looped_stages.h"
#include "stages/schedules.h"

namespace fsdp::stages {

StageSchedule all_forward_all_backward(int ranks, int stages_per_rank, int micro_batches) {
  using Kind = StageAction::Kind;
  StageSchedule schedule = looped_stages(ranks, stages_per_rank, micro_batches);
  const auto add_all = [&](Kind kind, int stage) {
    for (int i = 0; i < micro_batches; ++i)
      schedule.ranks[stage % ranks].push_back({.kind = kind, .stage = stage, .micro_batch = i});
  };
  for (int stage = 0; stage < schedule.stages(); ++stage) add_all(Kind::Forward, stage);
  for (int stage = schedule.stages() - 1; stage >= 0; --stage) add_all(Kind::Backward, stage);
  return schedule;
}

}  // namespace fsdp::stages
