// The text of `fsdp-train models`.
#pragma once

#include <string>

namespace trainer {

// A line for each name of a model that is trained, with its parameters and its shape.
std::string model_list();

}  // namespace trainer
