// The pipeline schedules by name. A new schedule is one file and one row in schedules.cpp.
#pragma once

#include <span>
#include <string_view>

#include "stages/stage_schedule.h"
#include "stages/timing.h"

namespace fsdp::stages {

// Passes alone, of `ranks` ranks with `stages_per_rank` stages each: stage s lies on rank s % ranks. Each count is at
// least 1. Throws Error for counts that the schedule cannot have.
using Generator = StageSchedule (*)(int ranks, int stages_per_rank, int micro_batches);

// One micro-batch goes forward through all stages, and back, before the next begins.
StageSchedule one_at_a_time(int ranks, int stages_per_rank, int micro_batches);
// GPipe (Huang et al., 2019): all forwards, then all backwards. Holds the activations of every micro-batch.
StageSchedule all_forward_all_backward(int ranks, int stages_per_rank, int micro_batches);
// 1F1B (Narayanan et al., PipeDream-Flush, 2021): a rank holds at most as many micro-batches as there are ranks from it
// to the end. One stage per rank.
StageSchedule one_forward_one_backward(int ranks, int stages_per_rank, int micro_batches);
// 1F1B over several stages per rank (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters,
// 2021): less idle time, more messages and activations.
StageSchedule interleaved(int ranks, int stages_per_rank, int micro_batches);
// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, 2024): 1F1B in which weight gradients wait until a rank would be
// idle. A rank holds the activations of at most ranks * stages_per_rank forwards, so of one stage perhaps more than
// those of `ranks` micro-batches.
StageSchedule zero_bubble(int ranks, int stages_per_rank, int micro_batches);

struct NamedSchedule {
  std::string_view name;
  Generator generate;
  // The share of the ranks' time without work, if the passes of all stages take `times` and messages no time.
  double (*idle_share)(int ranks, int stages_per_rank, int micro_batches, const StageTimes& times);
};

// In the order of fsdp::PipelineSchedule.
std::span<const NamedSchedule> named_schedules();
// Throws Error for another name.
const NamedSchedule& named_schedule(std::string_view name);

// The formula of the schedule's paper, for reports that print it beside the measured share. Interleaved and ZeroBubble:
// exact if `micro_batches` is a multiple of `ranks`, a lower bound otherwise. `times` are those of the passes of each
// stage, in any unit. Only the share of ZeroBubble depends on them, and is exact unless weight gradients take longer
// than the other two passes.
double idle_share_formula(std::string_view name, int ranks, int stages_per_rank, int micro_batches,
                          const StageTimes& times = {1, 1, 1});

}  // namespace fsdp::stages
