// A model's parameters by part, and what a token of it costs, known without building it.
#pragma once

#include <fsdp/plan.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "options/options.h"

namespace trainer {

struct ModelParts {
  std::vector<fsdp::plan::Unit> units;  // what lies outside of the blocks first, as `fsdp::shard` has it
  int64_t embeddings_numel = 0;         // a tied head is there, and counts once
  int64_t blocks_numel = 0;             // of all of them
  int64_t head_numel = 0;               // the last norm, and the head where it is not tied

  int64_t numel() const { return embeddings_numel + blocks_numel + head_numel; }
};

// `frozen`: names of the parameters that are not trained. `layers_per_unit`: as models::layer_units has them.
ModelParts parts_of(const models::ModelConfig& config, const std::set<std::string>& frozen = {},
                    int64_t layers_per_unit = 1);
// Those of a run.
ModelParts parts_of(const RunOptions& options);

}  // namespace trainer
