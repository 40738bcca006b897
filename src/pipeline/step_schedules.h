// The schedules of a pipeline's calls, by the number of micro-batches and kind of call. Each is made once.
#pragma once

#include <map>

#include "pipeline/stage_layout.h"
#include "stages/stage_schedule.h"
#include "stages/timing.h"

namespace fsdp::pipeline {

struct ScheduleKey {
  int micro_batches = 0;
  bool with_backward = false;
  bool sharded = false;  // stages are
  auto operator<=>(const ScheduleKey&) const = default;
};

class StepSchedules {
 public:
  StepSchedules(PipelineOptions options, const StageLayout& layout) : options_(std::move(options)), layout_(layout) {}

  // With messages, and with the gathers of sharded stages that are actions. Valid, or without backwards its forwards.
  const stages::StageSchedule& of(const ScheduleKey& key);
  // PipelineReport::idle_share_formula. `times`: of the passes of all stages together.
  double idle_share_formula(int micro_batches, const stages::StageTimes& times) const;

 private:
  PipelineOptions options_;
  StageLayout layout_;
  std::map<ScheduleKey, stages::StageSchedule> made_;
};

}  // namespace fsdp::pipeline
