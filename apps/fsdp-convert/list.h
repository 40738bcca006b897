// The tensors of a source, as text for people.
#pragma once

#include <string>

#include "formats/source.h"

namespace converter {

// A line for each tensor: its name, dtype, shape and bytes; and a line for all of them. `name` is the source's.
std::string list_of_tensors(const fsdp::formats::Source& source, const std::string& name);

}  // namespace converter
