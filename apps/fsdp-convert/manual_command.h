// `fsdp-convert man` and `fsdp-convert completion SHELL`.
#pragma once

#include <string>
#include <vector>

#include "fsdp-convert/arguments.h"

namespace converter {

// By the first argument. A SOURCE that is called so is written ./man.
bool asks_for_manual(const std::vector<std::string>& arguments);

// Sets the answer, or the problems.
void answer_manual(const std::vector<std::string>& arguments, Arguments& result);

}  // namespace converter
