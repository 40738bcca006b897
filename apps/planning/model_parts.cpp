#include "planning/model_parts.h"

#include <cstddef>
#include <iterator>

#include "options/frozen.h"

namespace trainer {

namespace {

bool is_layer_matrix(const models::Parameter& parameter, bool in_block) {
  return in_block && parameter.kind == models::ParameterKind::Matrix;
}

fsdp::plan::Unit planned(const models::Unit& unit, bool is_block, const std::set<std::string>& frozen) {
  fsdp::plan::Unit planned;
  for (const models::Parameter& parameter : unit.parameters) {
    planned.push_back({parameter.numel(), is_layer_matrix(parameter, is_block), !frozen.contains(parameter.name)});
  }
  return planned;
}

void append(fsdp::plan::Unit& unit, const fsdp::plan::Unit& parameters) {
  unit.insert(unit.end(), parameters.begin(), parameters.end());
}

}  // namespace

ModelParts parts_of(const models::ModelConfig& config, const std::set<std::string>& frozen, int64_t layers_per_unit) {
  const std::vector<models::Unit> units = models::units(config);
  ModelParts parts;
  std::ptrdiff_t embeddings = 0;  // before the layers, in the order of the model
  for (const models::Parameter& parameter : units.front().parameters) {
    const bool is_embedding = parameter.kind == models::ParameterKind::Embedding;
    if (is_embedding) ++embeddings;
    (is_embedding ? parts.embeddings_numel : parts.head_numel) += parameter.numel();
  }
  parts.units.push_back(planned(units.front(), false, frozen));
  const int64_t layers = std::ssize(units) - 1;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const models::Unit& unit = units[static_cast<size_t>(layer) + 1];
    if (layer % layers_per_unit == 0) parts.units.emplace_back();
    append(parts.units.back(), planned(unit, true, frozen));
    parts.blocks_numel += unit.numel();
  }
  if (layers > 1 && layers_per_unit >= layers) {
    parts.units.front().insert(parts.units.front().begin() + embeddings, parts.units.back().begin(),
                               parts.units.back().end());
    parts.units.pop_back();
  }
  return parts;
}

ModelParts parts_of(const RunOptions& options) {
  return parts_of(options.model, frozen_parameters(options), options.layers_per_unit);
}

}  // namespace trainer
