#include "models/part_attention.h"

#include <algorithm>
#include <optional>

#include "models/part_randomness.h"
#include "models/parts.h"

namespace models {

using torch::Tensor;

namespace {

// [batch, length, heads * width] -> [batch, heads, length, width]
Tensor divided_heads(const Tensor& projected, int64_t width) {
  return projected.view({projected.size(0), projected.size(1), -1, width}).transpose(1, 2);
}

}  // namespace

PartHeads heads_of_part(const ModelConfig& config, const Division& division) {
  return {.queries = config.heads / division.parts,
          .keys = std::max<int64_t>(config.key_value_heads_or_default() / division.parts, 1),
          .width = config.head_width_or_default()};
}

Tensor attention_of_parts(const PartProjections& parts, const PartHeads& heads, const Rotation* rotation,
                          double dropout, const Division& division, const CachedLayer& place) {
  const RankParts own = parts_of(division);
  std::optional<PartRandomness> randomness;
  if (dropout > 0) randomness.emplace(parts.queries[0].device());
  std::vector<Tensor> mixed;
  for (int part = 0; part < own.count; ++part) {
    Tensor queries = divided_heads(parts.queries[part], heads.width),
           keys = divided_heads(parts.keys[part], heads.width);
    if (rotation != nullptr) queries = rotation->turn(queries), keys = rotation->turn(keys);
    if (randomness) randomness->seed(own.first + part);
    const Tensor of_part = causal_attention(queries, keys, divided_heads(parts.values[part], heads.width), dropout,
                                            {place.cache, place.layer * own.count + part});
    mixed.push_back(of_part.transpose(1, 2).reshape(parts.queries[part].sizes()));
  }
  return join(mixed, -1);
}

}  // namespace models
