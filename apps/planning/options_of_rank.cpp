#include "planning/options_of_rank.h"

#include <algorithm>

#include "models/divided_parameters.h"

namespace trainer {

RunOptions options_of_rank(const RunOptions& options) {
  RunOptions own = options;
  own.ranks = options.data_ranks();
  own.pipeline_parallel = own.tensor_parallel = own.stages_per_rank = 1;
  own.stages = "auto";
  const int64_t tensor = options.tensor_parallel, parts_of_rank = options.parts() / tensor;
  if (tensor == 1) return own;
  own.tensor_parts = parts_of_rank;
  models::ModelConfig& model = own.model;
  const int64_t key_value_heads = model.key_value_heads_or_default();
  model.head_width = model.head_width_or_default();
  model.mlp_width = model.mlp_width_or_default() / tensor;
  model.heads /= tensor;
  // Parts that share a head use it once each.
  model.key_value_heads = key_value_heads >= options.parts() ? key_value_heads / tensor : parts_of_rank;
  model.vocabulary = models::heads_of({model.vocabulary}, {.parts = options.parts(), .ranks = tensor});
  return own;
}

}  // namespace trainer
