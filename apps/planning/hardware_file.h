// Machines as small files: numbers of plan/hardware.h in TOML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/hardware.h"

namespace trainer {

// The machine of a name ("h100"; planning/hardware/NAME.toml), or of a file. Throws fsdp::Error for another name, and
// for a file with unknown keys, missing keys or numbers out of range: all of them, a sentence each.
fsdp::plan::Hardware hardware_of(const std::string& name_or_file);

// In the form of the files. `origin` begins messages: "hardware 'h100.toml'".
fsdp::plan::Hardware hardware_in(std::string_view toml, const std::string& origin);

// The text of a file of planning/hardware/, by its name; there is none of another name: throws std::out_of_range.
std::string_view hardware_text(std::string_view name);
// The names of all.
std::vector<std::string_view> hardware_text();

// "a100-40", "h100".
std::vector<std::string> hardware_names();

}  // namespace trainer
