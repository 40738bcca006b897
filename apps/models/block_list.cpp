#include "models/block_list.h"

#include "models/block_costs.h"

namespace models {

std::vector<BlockFacts> block_list(const ModelConfig& config) {
  const std::vector<ModelBlock> all = blocks(config);
  const std::vector<double> costs = block_costs(config, config.context);
  std::vector<BlockFacts> facts;
  for (size_t i = 0; i < all.size(); ++i) facts.push_back({all[i].name, costs[i]});
  return facts;
}

}  // namespace models
