// The blocks of a run's model, as one tensor rank has them (src/plan/blocks.h). Pure.
#pragma once

#include <vector>

#include "models/divided_parameters.h"
#include "options/options.h"
#include "plan/blocks.h"

namespace trainer {

// The tensor rank of a run.
models::TensorRank tensor_rank_of(const RunOptions& options, int64_t rank);

std::vector<fsdp::plan::Block> stage_blocks(const RunOptions& options, int64_t tensor_rank);

}  // namespace trainer
