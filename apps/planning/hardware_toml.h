// A machine's file, written: the other direction of planning/hardware_file.h.
#pragma once

#include <string>

#include "plan/hardware.h"

namespace trainer {

// The text of a file that hardware_in reads as the same machine, with four digits of each number. `comment` is its
// first lines, without "# ".
std::string hardware_toml(const fsdp::plan::Hardware& hardware, const std::string& comment);

}  // namespace trainer
