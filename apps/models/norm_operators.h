// The operators of the norms of both families. Pure.
#pragma once

#include <string>

#include "models/graph_builder.h"

namespace models {

// LayerNorm, or RMSNorm for Llama, of rows of the model's width. Returns the tensor of the result.
size_t add_norm(GraphBuilder& graph, const std::string& name, size_t x);

}  // namespace models
