// Units given by hand, checked for what a module could not have.
#pragma once

#include <vector>

#include "fsdp/sharded_model.h"

namespace fsdp {

// Throws Error for an undefined tensor, and for two units, two parameters or two buffers of one name.
void check_given(const std::vector<NamedUnit>& units);

}  // namespace fsdp
