// The text of --help.
#pragma once

#include <string>

#include "options/commands.h"

namespace trainer {

// The options of a command in their groups, each with its unit, its default and what it may be, in lines of at most
// `width` columns. `all_commands`: the commands first.
std::string help_text(Command command, bool all_commands, int width = 100);

}  // namespace trainer
