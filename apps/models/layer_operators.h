// The operators of one layer of each family. Pure.
#pragma once

#include "models/model_config.h"
#include "models/operators.h"
#include "plan/graph.h"

namespace models {

// Gpt2Block's forward.
fsdp::plan::Graph gpt2_layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes);
// LlamaBlock's.
fsdp::plan::Graph llama_layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes);

}  // namespace models
