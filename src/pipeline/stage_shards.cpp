#include "pipeline/stage_shards.h"

#include <algorithm>

#include "engine/model.h"

namespace fsdp::pipeline {

namespace {

struct UnitsOfModel {
  std::shared_ptr<engine::Model> model;
  std::vector<int> units;
};

// In the order of the stage's parameters, which is the same on every rank that shares them.
std::vector<UnitsOfModel> units_of(const StageBlocks& blocks, const StageLayout& layout, int stage) {
  std::vector<UnitsOfModel> all;
  const int first = layout.first_block(stage);
  for (int block = first; block < first + layout.cuts[stage]; ++block) {
    for (const torch::Tensor& parameter : blocks.modules[block]->parameters()) {
      const auto model = engine::Model::of(parameter);
      if (!model) continue;
      auto found = std::ranges::find(all, model, &UnitsOfModel::model);
      if (found == all.end()) found = all.insert(all.end(), {model, {}});
      const int unit = engine::Model::unit_holding(parameter);
      if (std::ranges::find(found->units, unit) == found->units.end()) found->units.push_back(unit);
    }
  }
  return all;
}

}  // namespace

void gather_stage(const StageBlocks& blocks, const StageLayout& layout, int stage) {
  for (const auto& [model, units] : units_of(blocks, layout, stage)) model->hold(units);
}

void release_stage(const StageBlocks& blocks, const StageLayout& layout, int stage) {
  for (const auto& [model, units] : units_of(blocks, layout, stage)) model->let_go(units);
}

}  // namespace fsdp::pipeline
