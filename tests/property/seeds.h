// The seeds of the cases that a run tries.
#pragma once

#include <cstdint>
#include <vector>

namespace fsdp::property {

// Of the first `usual` seeds, from 0 on, those that the run tries: `quick` ones in the quick tier, an eighth of the
// others as well, or all (support/drawn.h). If FSDP_PROPERTY_SEED is set: the seed that it names, or the range, such as
// "100-499".
std::vector<uint64_t> tried_seeds(uint64_t usual, const std::vector<uint64_t>& quick);

}  // namespace fsdp::property
