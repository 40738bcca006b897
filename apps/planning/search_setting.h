// A setting of a search. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "options/options.h"

namespace trainer {

// The options of a run that a search is free to choose.
struct SearchSetting {
  int64_t ranks = 1, pipeline = 1, tensor = 1;
  bool has_slices = false;  // --sequence-parallel
  std::string schedule = "one-forward-one-backward";
  int64_t stages_per_rank = 1;
  std::string strategy = "full-shard";
  int64_t group = 0;  // --shard-group-size
  int64_t batch = 1, micro_batches = 1;
  std::string recomputation = "none";
  int64_t layers_per_unit = 1;
  int64_t prefetch = 1, buffers = 2;

  // That of a run.
  static SearchSetting of(const RunOptions& options);
  // The run with this setting.
  RunOptions applied_to(const RunOptions& options) const;
  // "--strategy full-shard --batch 2 --micro-batches 4 --activation-checkpoint none"
  std::string text(const RunOptions& options) const;
  // The setting in words: "full-shard, 4 micro-batches of 2, recomputes all".
  std::string name(const RunOptions& options) const;
};

}  // namespace trainer
