// The results that each layer of a run keeps for its backward. Pure.
#pragma once

#include <fsdp/activation_memory.h>

#include <cstdint>
#include <vector>

#include "models/recomputation.h"

namespace trainer {

inline fsdp::KeptResults kept_by_layer(const models::Recomputation& recomputation, int64_t layer, int64_t layers) {
  if (!recomputation.of(layer, layers)) return fsdp::KeptResults::All;
  return recomputation.keeps_products ? fsdp::KeptResults::Products : fsdp::KeptResults::None;
}

inline std::vector<fsdp::KeptResults> kept_by_layers(const models::Recomputation& recomputation, int64_t layers) {
  std::vector<fsdp::KeptResults> kept;
  for (int64_t layer = 0; layer < layers; ++layer) kept.push_back(kept_by_layer(recomputation, layer, layers));
  return kept;
}

}  // namespace trainer
