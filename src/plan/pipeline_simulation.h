// A simulation of pipeline steps: the schedules of stages/ in time, with the sharded units of each stage beneath.
//
// Each rank of the pipeline runs its actions of the schedule as the engine does, with a step driver and a clock of its
// own (simulation.h). The ranks that share its stages are alike. Messages take time, but no time of the ranks.
#pragma once

#include <vector>

#include "plan/simulation.h"
#include "stages/stage_schedule.h"

namespace fsdp::plan {

// The passes of one stage over one micro-batch. Units have numbers in the model of the stage's rank.
struct StageWork {
  Pass forward = {};
  Pass backward = {};         // the whole one
  Pass input_gradient = {};   // of schedules that divide backwards
  Pass weight_gradient = {};  // the rest: gradients alone, without units
  std::vector<UnitId> units = {};
};

// A rank of the pipeline and its model, which has the units of all its stages.
struct PipelineRank {
  schedule::Facts facts = {};
  schedule::Limits limits = {};
  StepDurations durations = {};
};

struct PipelineToSimulate {
  stages::StageSchedule schedule = {};  // with messages (stages::add_messages), and perhaps gathers
  std::vector<StageWork> stages = {};
  std::vector<PipelineRank> ranks = {};
  double message = 0;                 // seconds from the end of a pass until its result is on another rank
  std::vector<double> messages = {};  // between each stage and the next, in both directions; empty: `message` each
  double meeting = 0;  // seconds of a message of all ranks of the pipeline, before and behind the passes of a step
};

// A step of the pipeline. Times are in seconds.
struct SimulatedPipelineStep {
  double step = 0;                       // with the optimizer
  double makespan = 0;                   // from the first pass to the last
  std::vector<double> idle_shares = {};  // of each rank: the share of the makespan without a pass
  double idle_share = 0;                 // their mean, as PipelineReport::idle_share
  std::vector<SimulatedStep> ranks = {};
};

// A rank's events of one step.
StepEvents events_of(const PipelineToSimulate& pipeline, int rank);

// Every step of so many, the first one recorded. Throws Error as `simulate` and `validate` do.
std::vector<SimulatedPipelineStep> simulate_pipeline(const PipelineToSimulate& pipeline, int steps = 3);

}  // namespace fsdp::plan
