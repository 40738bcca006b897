// Which blocks each stage has, and which rank has each stage.
#pragma once

#include <string_view>
#include <vector>

#include "fsdp/pipeline.h"

namespace fsdp::pipeline {

struct StageLayout {
  int ranks = 1;
  std::vector<int> cuts;  // blocks of each stage

  int stages() const { return static_cast<int>(cuts.size()); }
  int rank_of(int stage) const { return stage % ranks; }
  int first_block(int stage) const;
  int stage_of(int block) const;
};

// The schedule's name in stages/schedules.h.
std::string_view name_of(PipelineSchedule schedule);

// Throws Error for blocks without a name or a function, names that are not unique, and options that do not fit.
StageLayout lay_out(const std::vector<PipelineBlock>& blocks, const PipelineOptions& options, int ranks);

}  // namespace fsdp::pipeline
