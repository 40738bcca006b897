// Parameters that several blocks share. Each block has a copy, and all copies have equal values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fsdp/pipeline.h"

namespace fsdp::pipeline {

struct Tie {
  struct Copy {
    int block;
    std::string parameter;  // its name in the block
  };
  std::vector<Copy> copies;  // in the order of the blocks, at least 2
  size_t source = 0;         // the copy that has the first values
};

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

// The ties that PipelineBlock::shares names. Throws Error for a name of no parameter, a circle, and for parameters that
// differ in shape or dtype. `modules`: of all blocks.
std::vector<Tie> find_ties(const std::vector<PipelineBlock>& blocks, const Modules& modules);

// Throws Error if two blocks hold the same parameter without saying so by `shares`, or the same buffer: on two ranks
// they would be two.
void check_untied(const std::vector<PipelineBlock>& blocks, const Modules& modules);

torch::Tensor tensor_of(const Tie::Copy& copy, const Modules& modules);

}  // namespace fsdp::pipeline
