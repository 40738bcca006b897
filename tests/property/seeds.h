// The seeds of the cases that a run tries.
#pragma once

#include <cstdint>
#include <vector>

namespace fsdp::property {

// The first `usual` seeds, from 0 on. If FSDP_PROPERTY_SEED is set: the seed that it names, or the range, such as
// "100-499".
std::vector<uint64_t> wanted_seeds(uint64_t usual);

}  // namespace fsdp::property
