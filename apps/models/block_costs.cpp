#include "models/block_costs.h"

namespace models {

namespace {

std::string module_of(const Parameter& parameter) { return parameter.name.substr(0, parameter.name.rfind('.')); }

// A block for each module outside of the layers, in the order of the parameters.
std::vector<ModelBlock> blocks_around(const std::vector<Parameter>& root, bool embeddings) {
  std::vector<ModelBlock> found;
  for (const Parameter& parameter : root) {
    if ((parameter.kind == ParameterKind::Embedding) != embeddings) continue;
    if (found.empty() || found.back().name != module_of(parameter)) found.push_back({module_of(parameter), {}});
    found.back().parameters.push_back(parameter);
  }
  return found;
}

ModelBlock tied_head(const Parameter& embedding) {
  ModelBlock head{.name = "lm_head", .parameters = {embedding}, .tied_to = embedding.name};
  head.parameters[0].name = "lm_head.weight";
  head.parameters[0].kind = ParameterKind::Matrix;
  return head;
}

BlockOperations operations_of(const ModelBlock& block, double attended) {
  constexpr double kProduct = 2;  // a multiplication and an addition
  BlockOperations sum;
  const auto add = [&](double forward, double input_gradient, double weight_gradient) {
    sum.forward += forward;
    sum.input_gradient += input_gradient;
    sum.weight_gradient += weight_gradient;
  };
  for (const Parameter& parameter : block.parameters) {
    const auto numel = static_cast<double>(parameter.numel());
    if (parameter.kind == ParameterKind::Embedding) {
      add(static_cast<double>(parameter.shape[1]), 0, static_cast<double>(parameter.shape[1]));
    } else {
      add(kProduct * numel, kProduct * numel, kProduct * numel);
    }
    // Two products without weights: scores, and their sums of values.
    if (follows_attention(parameter)) add(2 * kProduct * attended, 4 * kProduct * attended, 0);
  }
  return sum;
}

}  // namespace

std::vector<ModelBlock> blocks(const ModelConfig& config) {
  const std::vector<Unit> all = units(config);
  std::vector<ModelBlock> blocks = blocks_around(all[0].parameters, true);
  for (size_t unit = 1; unit < all.size(); ++unit)
    blocks.push_back({.name = all[unit].name, .parameters = all[unit].parameters, .is_layer = true});
  for (ModelBlock& block : blocks_around(all[0].parameters, false)) blocks.push_back(std::move(block));
  if (config.tied_embeddings) blocks.push_back(tied_head(all[0].parameters[0]));
  return blocks;
}

std::vector<BlockOperations> block_operations(const ModelConfig& config, int64_t length) {
  const auto attended = static_cast<double>(config.heads * config.head_width_or_default() * length);
  std::vector<BlockOperations> operations;
  for (const ModelBlock& block : blocks(config)) operations.push_back(operations_of(block, attended));
  return operations;
}

std::vector<double> block_costs(const ModelConfig& config, int64_t length) {
  std::vector<double> costs;
  for (const BlockOperations& operations : block_operations(config, length)) costs.push_back(operations.sum());
  return costs;
}

}  // namespace models
