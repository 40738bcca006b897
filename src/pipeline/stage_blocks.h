// The modules of this rank's blocks.
#pragma once

#include <memory>
#include <vector>

#include "pipeline/stage_layout.h"
#include "pipeline/ties.h"

namespace fsdp::pipeline {

struct StageBlocks {
  std::shared_ptr<torch::nn::Module> root;  // this rank's blocks, as submodules by their names
  Modules modules;                          // by block; null: another rank has it
  std::vector<Tie> ties;                    // of all blocks
};

// Constructs all blocks in order, and makes those of this rank real: with the values of an ordinary construction, the
// values of tied parameters included. In a deferred_init of the caller they stay deferred. The generator is left as an
// ordinary construction leaves it.
StageBlocks make_blocks(const std::vector<PipelineBlock>& blocks, const StageLayout& layout, int rank,
                        torch::Device device);

}  // namespace fsdp::pipeline
