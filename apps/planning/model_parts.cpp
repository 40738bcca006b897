#include "planning/model_parts.h"

#include <cstddef>
#include <utility>

#include "options/frozen.h"
#include "plan/blocks.h"

namespace trainer {

namespace {

bool is_layer_matrix(const models::Parameter& parameter, bool in_block) {
  return in_block && parameter.kind == models::ParameterKind::Matrix;
}

fsdp::plan::Parameter planned(const models::Parameter& parameter, bool in_block, const std::set<std::string>& frozen) {
  return {parameter.numel(), is_layer_matrix(parameter, in_block), !frozen.contains(parameter.name)};
}

}  // namespace

ModelParts parts_of(const models::ModelConfig& config, const std::set<std::string>& frozen, int64_t layers_per_unit) {
  const std::vector<models::Unit> units = models::units(config);
  ModelParts parts;
  fsdp::plan::Block embeddings, head;  // before and after the layers
  for (const models::Parameter& parameter : units.front().parameters) {
    const bool is_embedding = parameter.kind == models::ParameterKind::Embedding;
    (is_embedding ? parts.embeddings_numel : parts.head_numel) += parameter.numel();
    (is_embedding ? embeddings : head).parameters.push_back(planned(parameter, false, frozen));
  }
  std::vector<fsdp::plan::Block> blocks{std::move(embeddings)};
  for (size_t layer = 0; layer + 1 < units.size(); ++layer) {
    fsdp::plan::Block block{.is_layer = true, .layer_unit = static_cast<int64_t>(layer) / layers_per_unit};
    for (const models::Parameter& parameter : units[layer + 1].parameters)
      block.parameters.push_back(planned(parameter, true, frozen));
    parts.blocks_numel += units[layer + 1].numel();
    blocks.push_back(std::move(block));
  }
  blocks.push_back(std::move(head));
  parts.units = units_of_rank(mesh_of_one_rank(blocks), blocks, 0).units;
  return parts;
}

ModelParts parts_of(const RunOptions& options) {
  return parts_of(options.model, frozen_parameters(options), options.layers_per_unit);
}

}  // namespace trainer
