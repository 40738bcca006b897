// The text of --help and -h.
#pragma once

#include <string>

#include "options/commands.h"

namespace trainer {

enum class HelpLength { Short, Full };

struct HelpForm {
  bool all_commands = false;             // with a list of the commands
  HelpLength length = HelpLength::Full;  // Short: the options that are most used
  int width = 80;                        // columns of a line, at most
};

// A command's use, examples, and its options in their groups, each with its unit, its default and what it may be.
std::string help_text(Command command, const HelpForm& form = {});

}  // namespace trainer
