// The memory of engines of others, by formulas of their published designs. Pure.
#pragma once

#include "planning/plan_numbers.h"

namespace trainer {

// Bytes of the rank that holds most. FSDP1 and FSDP2 (https://arxiv.org/abs/2304.11277): shards, their gradients and
// AdamW's moments in fp32, the root unit and two units full, full gradients of the root and of one unit. DDP: the whole
// model in fp32. YaFSDP: two buffers for units and one for gradients. Megatron: 18 bytes per parameter of the rank.
// All logits are in memory, and a copy in fp32 with its gradient. Throws fsdp::Error for libfsdp, whose layout is exact
// (state_memory).
PlannedMemory engine_memory(const PlanTarget& target, const RunOptions& options);

// Parameters of a model: all, those outside of its blocks, and those of its largest block.
struct ModelSizes {
  int64_t all = 0, root = 0, block = 0;
};

// The same memory without activations and logits. The peak is the end of a backward. The model is not on a mesh.
PlannedMemory engine_state(const PlanTarget& target, const RunOptions& options, const ModelSizes& model);

}  // namespace trainer
