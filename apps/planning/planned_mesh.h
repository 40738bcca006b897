// A run on a mesh of data x pipeline x tensor ranks: the stages of its pipeline, their schedule, and the share of the
// time in which ranks are idle. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "options/options.h"
#include "stages/stage_schedule.h"

namespace trainer {

struct PlannedMesh {
  int64_t data = 1, pipeline = 1, tensor = 1;
  std::vector<int> cuts;                 // blocks of each stage
  fsdp::stages::StageSchedule schedule;  // the passes of a step
  std::string_view schedule_name;        // of stages::named_schedules()

  int stages() const { return static_cast<int>(cuts.size()); }
  int first_block(int stage) const;
  std::vector<int> stages_of(int pipeline_rank) const;
};

// Throws fsdp::Error for stages that the model's blocks or the schedule cannot have.
PlannedMesh planned_mesh(const RunOptions& options);

// The mean share of a step in which a rank of the pipeline runs no pass: by the operations of the stages, and if all
// stages took equally long.
struct IdleShares {
  std::vector<double> of_rank;  // by pipeline rank
  double mean = 0;
  double equal_stages = 0;
};
IdleShares idle_shares(const PlannedMesh& mesh, const RunOptions& options);

}  // namespace trainer
