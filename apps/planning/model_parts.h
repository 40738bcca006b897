// A model's parameters by part, and what a token of it costs, known without building it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace trainer {

struct PlannedParameter {
  int64_t numel = 0;
  bool is_layer_matrix = false;  // what Muon steps; all else is AdamW's
  bool is_trained = true;        // has a gradient, and state of the optimizer

  bool operator==(const PlannedParameter&) const = default;
};

// A unit as `fsdp::shard` makes it: its parameters in their order.
using PlannedUnit = std::vector<PlannedParameter>;
int64_t numel_of(const PlannedUnit& unit);

struct ModelParts {
  std::vector<PlannedUnit> units;  // what lies outside of the blocks first, as `fsdp::shard` has it
  int64_t embeddings_numel = 0;    // a tied head is there, and counts once
  int64_t blocks_numel = 0;        // of all of them
  int64_t head_numel = 0;          // the last norm, and the head where it is not tied
  int64_t activation_numel = 0;    // that forward keeps for backward, for each token, in the parameters' dtype

  int64_t numel() const { return embeddings_numel + blocks_numel + head_numel; }
};

// `frozen`: names of the parameters that are not trained.
ModelParts parts_of(const models::ModelConfig& config, const std::set<std::string>& frozen = {});

}  // namespace trainer
