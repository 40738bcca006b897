#include "planning/stage_blocks.h"

#include "models/block_costs.h"
#include "options/frozen.h"
#include "planning/second_forwards.h"

namespace trainer {

namespace {

using fsdp::plan::DividedPasses;

fsdp::plan::Unit planned(const models::ModelBlock& block, const models::TensorRank& place,
                         const std::set<std::string>& frozen) {
  fsdp::plan::Unit unit;
  for (const models::Parameter& parameter : block.parameters) {
    const bool is_matrix = block.is_layer && parameter.kind == models::ParameterKind::Matrix;
    const std::string& name = block.tied_to.empty() ? parameter.name : block.tied_to;
    unit.push_back({models::part_of(parameter, place).numel(), is_matrix, !frozen.contains(name)});
  }
  return unit;
}

bool is_lookup(const models::ModelBlock& block) {
  return block.parameters.front().kind == models::ParameterKind::Embedding;
}

fsdp::plan::PassExchanges exchanges_of_layer(const models::ModelBlock& block, const DividedPasses& passes) {
  int64_t columns = 0, rows = 0;
  for (const models::Parameter& parameter : block.parameters) {
    const bool is_divided = parameter.kind == models::ParameterKind::Matrix && parameter.divided;
    if (is_divided && !models::is_adapter(parameter.name)) ++(parameter.divided->dim == 0 ? columns : rows);
  }
  return fsdp::plan::layer_exchanges(columns, rows, passes);
}

fsdp::plan::PassExchanges exchanges_of(const models::ModelBlock& block, const DividedPasses& passes) {
  if (block.is_layer) return exchanges_of_layer(block, passes);
  if (!block.parameters.front().divided) return {};
  return is_lookup(block) ? lookup_exchanges(passes) : head_exchanges(passes);
}

}  // namespace

models::TensorRank tensor_rank_of(const RunOptions& options, int64_t rank) {
  return {.parts = options.parts(), .ranks = options.tensor_parallel, .rank = rank};
}

std::vector<fsdp::plan::Block> stage_blocks(const RunOptions& options, int64_t tensor_rank) {
  const std::set<std::string> frozen = frozen_parameters(options);
  const std::vector<bool> again = second_forwards(options);
  std::vector<fsdp::plan::Block> planned_blocks;
  int64_t layers = 0;
  for (const models::ModelBlock& block : models::blocks(options.model)) {
    const DividedPasses passes{.slices = options.sequence_parallel, .again = again[planned_blocks.size()]};
    const bool is_same_tensor = options.pipeline_parallel == 1 && !block.tied_to.empty();  // no copy
    planned_blocks.push_back({.parameters = is_same_tensor
                                                ? fsdp::plan::Unit()
                                                : planned(block, tensor_rank_of(options, tensor_rank), frozen),
                              .is_layer = block.is_layer,
                              .layer_unit = block.is_layer ? layers++ / options.layers_per_unit : -1,
                              .is_lookup = is_lookup(block),
                              .exchanges = exchanges_of(block, passes)});
  }
  return planned_blocks;
}

}  // namespace trainer
