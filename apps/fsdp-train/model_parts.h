// A model's parameters, unit by unit, known without building it.
#pragma once

#include <cstdint>
#include <vector>

#include "models/gpt_config.h"

namespace trainer {

struct PlannedParameter {
  int64_t numel = 0;
  bool is_layer_matrix = false;  // what Muon steps; all else is AdamW's
};

// A unit as `fsdp::shard` makes it: its parameters in their order.
using PlannedUnit = std::vector<PlannedParameter>;
int64_t numel_of(const PlannedUnit& unit);

struct ModelParts {
  std::vector<PlannedUnit> units;  // what lies outside of the blocks first, as `fsdp::shard` has it
  int64_t embeddings_numel = 0;    // a tied head is there, and counts once
  int64_t blocks_numel = 0;        // of all of them
  int64_t head_numel = 0;          // the last norm, and the head where it is not tied
  int64_t multiplying_numel = 0;   // elements that each token is multiplied by
  int64_t activation_numel = 0;    // that forward keeps for backward, for each token, in the parameters' dtype
  int64_t logits = 0;              // that a token's loss is computed from, in fp32

  int64_t numel() const { return embeddings_numel + blocks_numel + head_numel; }
};

ModelParts parts_of(const gpt::Config& config);

// Floating-point operations of a token's forward and backward: 6 for each element that it is multiplied by, and 12 *
// layers * width * context for attention, that over masked pairs included (Chowdhery et al., 2022, PaLM,
// https://arxiv.org/abs/2204.02311, appendix B).
double flops_per_token(const gpt::Config& config);

}  // namespace trainer
