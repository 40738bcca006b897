// A model as the blocks of a pipeline, known without building it: their parameters, and what they compute. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

// A block of a pipeline: an embedding, a layer, the last norm, or the head with the loss.
struct ModelBlock {
  std::string name;
  std::vector<Parameter> parameters;
  bool is_layer = false;
  std::string tied_to = "";  // the head's only parameter is a copy of this one; empty: it is none
};

// In their order.
std::vector<ModelBlock> blocks(const ModelConfig& config);

// Floating-point operations of a token in one block, of a sequence of `length` tokens. Their sum over all blocks is
// flops_per_token without frozen parameters, and 2 for each entry of a looked up row: its copy, and the addition of its
// gradient.
struct BlockOperations {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  double sum() const { return forward + input_gradient + weight_gradient; }
};
std::vector<BlockOperations> block_operations(const ModelConfig& config, int64_t length);

// Their sums by block, all above 0: the costs that stages::even_cuts divides.
std::vector<double> block_costs(const ModelConfig& config, int64_t length);

}  // namespace models
