// A policy's choice, checked: a slip in a type or a name would gather the whole model at once, and nothing would tell.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "fsdp/options.h"

namespace fsdp {

// Throws Error where no unit has a parameter of the module, unless the choice says that the whole is one unit; and for
// two units of one name.
void check_found(const torch::nn::Module& module, const std::vector<UnitMembers>& units);

}  // namespace fsdp
