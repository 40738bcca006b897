// The blocks whose products run a second time in the backward. Pure.
#pragma once

#include <vector>

#include "models/block_costs.h"
#include "options/options.h"

namespace trainer {

// By block of models::blocks(options.model).
inline std::vector<bool> second_forwards(const RunOptions& options) {
  const models::Recomputation recomputation = options.recomputation();
  std::vector<bool> again;
  int64_t layer = 0;
  for (const models::ModelBlock& block : models::blocks(options.model))
    again.push_back(block.is_layer && recomputation.of(layer++, options.model.layers) && !recomputation.keeps_products);
  return again;
}

}  // namespace trainer
