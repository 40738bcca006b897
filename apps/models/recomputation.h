// Which blocks of a model run again in the backward instead of keeping what it needs. No LibTorch, as model_config.h.
#pragma once

#include <cstdint>

namespace models {

struct Recomputation {
  int64_t blocks = 0;           // so many, spread evenly; all of a model that has no more
  bool keeps_products = false;  // of those blocks: the results of matrix products and attention

  bool operator==(const Recomputation&) const = default;
  // For 2 in 6 layers, these are layers 0 and 3. The last is one only where all are: its backward comes first, while
  // what all others keep is still there.
  bool of(int64_t layer, int64_t layers) const {
    const auto before = [&](int64_t end) { return (end * blocks + layers - 1) / layers; };
    return blocks >= layers || before(layer + 1) > before(layer);
  }
};

}  // namespace models
