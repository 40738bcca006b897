// The operators of attention: causal_attention (key_value_cache.h), or an engine's that is not fused. Pure.
#pragma once

#include <optional>

#include "models/graph_builder.h"

namespace models {

// Numbers of the tensors with the projections of a layer.
struct AttentionInput {
  size_t queries, keys, values;
  // GPT-2's are views of one tensor: this one.
  std::optional<size_t> joined = std::nullopt;
  // The queries of a head lie behind each other, [batch, heads, length, head width], and so does the result of a fused
  // kernel: the next product needs it in another order.
  bool by_heads = false;
};

// Returns the tensor [rows, heads of this rank * head width].
size_t add_attention(GraphBuilder& graph, const AttentionInput& input);

}  // namespace models
