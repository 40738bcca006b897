// The text of `fsdp-train models`.
#pragma once

#include <string>

namespace trainer {

// A line for each model that has a name, with its parameters and its shape.
std::string model_list();

}  // namespace trainer
