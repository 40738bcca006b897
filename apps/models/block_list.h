// The blocks of a model as a pipeline has them. No LibTorch, as model_config.h.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

struct BlockFacts {
  std::string name;  // its parameters are NAME.weight, ..., as in the whole model
  double cost;       // of a token's forward and backward, for a sequence as long as the context. Only the ratios count
};

// In order: the token embedding, GPT-2's positions, the layers, the last norm and the head. The head is "lm_head", also
// where it is tied to the embedding. In a pass the loss is numbered as the block behind the head.
std::vector<BlockFacts> block_list(const ModelConfig& config);

}  // namespace models
