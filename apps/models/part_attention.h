// Attention of a divided model: the heads of each part by themselves.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "models/division.h"
#include "models/key_value_cache.h"
#include "models/rotary_embedding.h"

namespace models {

// The heads of a part. If there are fewer key heads than parts, several parts use the same one.
struct PartHeads {
  int64_t queries = 1, keys = 1, width = 1;
};
PartHeads heads_of_part(const ModelConfig& config, const Division& division);

// Projections of this rank's parts, each [batch, length, heads * width].
struct PartProjections {
  std::vector<torch::Tensor> queries, keys, values;
};

// causal_attention of each part: [batch, length, query heads of this rank * width]. Calls of causal_attention for
// several parts at once could choose kernels by the number of heads. `rotation` may be null. A part's random numbers
// depend on the part and not on the rank.
torch::Tensor attention_of_parts(const PartProjections& parts, const PartHeads& heads, const Rotation* rotation,
                                 double dropout, const Division& division, const CachedLayer& place);

}  // namespace models
