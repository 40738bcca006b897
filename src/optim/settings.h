// The numbers that an optimizer is set by, for each group of parameters.
#pragma once

#include <string>
#include <vector>

#include "fsdp/optim.h"

namespace fsdp::optim {

// A group without patterns in which every number that the optimizer knows is set, and no other is.
using Settings = ParameterGroup;

// The numbers that the group sets, and `defaults` for the others.
Settings resolve(const Settings& defaults, const ParameterGroup& group);

// Throws Error for a number out of range, here or in a group, and for one in a group that `defaults` does not know.
void check_settings(const std::string& optimizer, const Settings& defaults, const std::vector<ParameterGroup>& groups);

}  // namespace fsdp::optim
