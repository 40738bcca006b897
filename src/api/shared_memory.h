// Tensors of a module that share memory with parameters which are to be sharded. The parameters leave that memory:
// other tensors over it would keep the values of now.
#pragma once

#include <vector>

#include "fsdp/sharded_model.h"

namespace fsdp {

// `ignored` are tensors that stay as they are. Throws Error where two parameters, or a parameter and a buffer or an
// ignored tensor, show the same bytes, and where two elements of a parameter are one.
void check_memory(const std::vector<NamedUnit>& units, const NamedTensors& ignored);

}  // namespace fsdp
