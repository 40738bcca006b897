#include "planning/stage_units.h"

#include "models/block_costs.h"
#include "options/frozen.h"

namespace trainer {

namespace {

PlannedUnit planned(const models::ModelBlock& block, const models::TensorRank& place,
                    const std::set<std::string>& frozen) {
  PlannedUnit unit;
  for (const models::Parameter& parameter : block.parameters) {
    const bool is_matrix = block.is_layer && parameter.kind == models::ParameterKind::Matrix;
    const std::string& name = block.tied_to.empty() ? parameter.name : block.tied_to;
    unit.push_back({models::part_of(parameter, place).numel(), is_matrix, !frozen.contains(name)});
  }
  return unit;
}

}  // namespace

models::TensorRank tensor_rank_of(const RunOptions& options, int64_t rank) {
  return {.parts = options.parts(), .ranks = options.tensor_parallel, .rank = rank};
}

std::vector<PlannedUnit> units_of_rank(const PlannedMesh& mesh, const RunOptions& options, int pipeline_rank,
                                       int64_t tensor_rank) {
  const std::vector<models::ModelBlock> blocks = models::blocks(options.model);
  const std::set<std::string> frozen = frozen_parameters(options);
  PlannedUnit root;
  std::vector<PlannedUnit> layers;
  for (const int stage : mesh.stages_of(pipeline_rank)) {
    const int first = mesh.first_block(stage);
    for (int i = first; i < first + mesh.cuts[static_cast<size_t>(stage)]; ++i) {
      const models::ModelBlock& block = blocks[static_cast<size_t>(i)];
      const bool is_same_tensor = mesh.pipeline == 1 && !block.tied_to.empty();  // without a pipeline: no copy
      if (is_same_tensor) continue;
      const PlannedUnit unit = planned(block, tensor_rank_of(options, tensor_rank), frozen);
      if (block.is_layer) {
        layers.push_back(unit);
      } else {
        root.insert(root.end(), unit.begin(), unit.end());
      }
    }
  }
  if (!root.empty()) layers.insert(layers.begin(), root);
  return layers;
}

}  // namespace trainer
