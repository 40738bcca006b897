#include "models/block_list.h"

#include <fmt/format.h>

namespace models {

namespace {

double numel_of_matrices(const Unit& unit) {
  double numel = 0;
  for (const Parameter& parameter : unit.parameters) {
    if (parameter.kind == ParameterKind::Matrix) numel += static_cast<double>(parameter.numel());
  }
  return numel;
}

// One operation per element of the width.
double cheap(const ModelConfig& config) { return static_cast<double>(config.width); }

// The terms of flops_per_token.
double cost_of_layer(const ModelConfig& config, const Unit& layer) {
  const auto attended = static_cast<double>(2 * config.heads * config.head_width_or_default() * config.context);
  return numel_of_matrices(layer) + attended;
}

}  // namespace

std::vector<BlockFacts> block_list(const ModelConfig& config) {
  const bool is_gpt2 = config.family == Family::Gpt2;
  std::vector<BlockFacts> blocks{{is_gpt2 ? "transformer.wte" : "model.embed_tokens", cheap(config)}};
  if (is_gpt2) blocks.push_back({"transformer.wpe", cheap(config)});
  const std::vector<Unit> all = units(config);
  for (size_t unit = 1; unit < all.size(); ++unit) blocks.push_back({all[unit].name, cost_of_layer(config, all[unit])});
  blocks.push_back({is_gpt2 ? "transformer.ln_f" : "model.norm", cheap(config)});
  blocks.push_back({"lm_head", static_cast<double>(config.vocabulary * config.width)});
  return blocks;
}

}  // namespace models
