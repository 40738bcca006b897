#include "pipeline/step_schedules.h"

#include <utility>

#include "stages/rewrites.h"
#include "stages/schedules.h"
#include "stages/validate.h"

namespace fsdp::pipeline {

namespace {

using stages::StageAction;
using stages::StageSchedule;

// The forwards alone, with their messages and gathers. They have an order that every rank can follow, as the whole has.
StageSchedule forwards_of(StageSchedule schedule) {
  using Kind = StageAction::Kind;
  const auto is_of_backward = [](const StageAction& action) {
    return (is_pass(action.kind) && action.kind != Kind::Forward) || action.kind == Kind::SendBackward ||
           action.kind == Kind::ReceiveBackward;
  };
  for (auto& actions : schedule.ranks) std::erase_if(actions, is_of_backward);
  return schedule;
}

}  // namespace

const StageSchedule& StepSchedules::of(const ScheduleKey& key) {
  if (const auto known = made_.find(key); known != made_.end()) return known->second;
  const auto generate = stages::named_schedule(name_of(options_.schedule)).generate;
  StageSchedule schedule =
      stages::add_messages(stages::without_idle(generate(layout_.ranks, options_.stages_per_rank, key.micro_batches)));
  if (key.sharded && options_.gathers == GatherEvery::Step) schedule = stages::add_gathers(schedule);
  stages::validate(schedule);
  if (!key.with_backward) schedule = forwards_of(std::move(schedule));
  return made_[key] = std::move(schedule);
}

double StepSchedules::idle_share_formula(int micro_batches, const stages::StageTimes& times) const {
  return stages::idle_share_formula(name_of(options_.schedule), layout_.ranks, options_.stages_per_rank, micro_batches,
                                    times);
}

}  // namespace fsdp::pipeline
