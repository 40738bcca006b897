// The seconds that a step on a mesh takes at least, without a simulation: a search leaves out what cannot win. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/block_times.h"

namespace fsdp::plan {

// The stages of a pipeline, of `ranks` ranks in turns.
struct LeastPipeline {
  std::vector<int> cuts = {};  // blocks of each stage
  int64_t ranks = 1;
  int64_t micro_batches = 1;
  bool puts_off_weights = false;  // weight gradients may come behind the last message (ZeroBubble)
};

// Each rank computes all its passes. Before, its first micro-batch goes through the stages in front, and behind, its
// last one goes back through them. `times` by block.
double least_pass_seconds(const LeastPipeline& pipeline, const std::vector<BlockTimes>& times);

// The sums of each micro-batch's gradients take turns on a rank's network.
double least_reduction_seconds(const LeastPipeline& pipeline, const std::vector<Block>& blocks, int64_t element,
                               const UnitRings& rings, const ShardedEngine& engine, const Hardware& hardware);

}  // namespace fsdp::plan
