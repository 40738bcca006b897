// A mesh of data x pipeline x tensor ranks: the stages of its pipeline, their schedule, and the share of the time in
// which ranks are idle. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "stages/stage_schedule.h"
#include "stages/timing.h"

namespace fsdp::plan {

struct MeshSizes {
  int64_t data = 1, pipeline = 1, tensor = 1;
};
// Throws Error for an axis without ranks, or more ranks than a plan has.
int64_t ranks_of(const MeshSizes& sizes);

struct Mesh {
  MeshSizes sizes;
  std::vector<int> cuts;           // blocks of each stage
  stages::StageSchedule schedule;  // the passes of a step
  std::string_view schedule_name;  // of stages::named_schedules()

  int stages() const { return static_cast<int>(cuts.size()); }
  int first_block(int stage) const;
  int end_block(int stage) const { return first_block(stage) + cuts[static_cast<size_t>(stage)]; }
  std::vector<int> stages_of(int64_t pipeline_rank) const;
};

// The mesh of a run. `schedule` is the name of a stages::NamedSchedule. Throws Error for sizes as ranks_of does, cuts
// without blocks, stages that the pipeline's ranks do not divide, counts that the schedule cannot have, and more than
// four million passes.
Mesh mesh_of(const MeshSizes& sizes, std::vector<int> cuts, std::string_view schedule, int64_t micro_batches);

// The mean share of a step in which a rank of the pipeline runs no pass: by the times of the stages. `equal_stages` is
// that of the schedule's formula, with the mean time of each kind of pass.
struct IdleShares {
  std::vector<double> of_rank;  // by pipeline rank
  double mean = 0;
  double equal_stages = 0;
};
// `blocks`: the times of the passes of each block for a micro-batch, in any unit. Throws Error for times of another
// number of blocks than the mesh has, and as stages::timing_of does.
IdleShares idle_shares(const Mesh& mesh, const std::vector<stages::StageTimes>& blocks);

}  // namespace fsdp::plan
