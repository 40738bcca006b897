#include "planning/model_parts.h"

#include <cstddef>
#include <numeric>

namespace trainer {

namespace {

bool is_layer_matrix(const models::Parameter& parameter, bool in_block) {
  return in_block && parameter.kind == models::ParameterKind::Matrix;
}

PlannedUnit planned(const models::Unit& unit, bool is_block, const std::set<std::string>& frozen) {
  PlannedUnit planned;
  for (const models::Parameter& parameter : unit.parameters) {
    planned.push_back({parameter.numel(), is_layer_matrix(parameter, is_block), !frozen.contains(parameter.name)});
  }
  return planned;
}

// The tensors that backward of a block reads, for each token, after Korthikanti et al. (2022,
// https://arxiv.org/abs/2205.05198, section 4.1), without dropout masks and the scores of attention, which
// scaled_dot_product_attention computes again: both norms' inputs and outputs; queries, keys, values and what attention
// gives, and that once more as the input of the last projection; and of the MLP the input of its activation and of its
// last matrix, for Llama also both factors that are multiplied between them.
int64_t kept_numel(const models::ModelConfig& config) {
  const int64_t queries = config.heads * config.head_width_or_default();
  const int64_t keys = config.key_value_heads_or_default() * config.head_width_or_default();
  const int64_t of_mlp = config.family == models::Family::Llama ? 4 : 2;
  return 4 * config.width + 3 * queries + 2 * keys + of_mlp * config.mlp_width_or_default();
}

}  // namespace

int64_t numel_of(const PlannedUnit& unit) {
  return std::accumulate(unit.begin(), unit.end(), int64_t{0},
                         [](int64_t sum, const PlannedParameter& parameter) { return sum + parameter.numel; });
}

ModelParts parts_of(const models::ModelConfig& config, const std::set<std::string>& frozen) {
  const std::vector<models::Unit> units = models::units(config);
  ModelParts parts;
  for (const models::Parameter& parameter : units.front().parameters) {
    const bool is_embedding = parameter.kind == models::ParameterKind::Embedding;
    (is_embedding ? parts.embeddings_numel : parts.head_numel) += parameter.numel();
  }
  for (size_t i = 0; i < units.size(); ++i) {
    parts.units.push_back(planned(units[i], i > 0, frozen));
    if (i > 0) parts.blocks_numel += units[i].numel();
  }
  parts.activation_numel = config.layers * kept_numel(config);
  return parts;
}

}  // namespace trainer
