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
  return parts;
}

}  // namespace trainer
