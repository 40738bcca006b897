// The part of a model that one rank of a tensor-parallel axis holds, as the layers of fsdp/tensor_parallel.h divide it.
// Pure arithmetic.
#pragma once

#include <cstdint>

#include "models/model_config.h"

namespace models {

// A rank of a tensor axis. `ranks` divides `parts`; each rank holds neighbouring parts.
struct TensorRank {
  int64_t parts = 1, ranks = 1, rank = 0;
};

// The parameter with the shape that it has on this rank.
Parameter part_of(const Parameter& whole, const TensorRank& place);

// Heads or entries on this rank: shared heads count once.
int64_t heads_of(const DividedHeads& whole, const TensorRank& place);

}  // namespace models
