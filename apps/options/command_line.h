// The command line: flags over a configuration file over defaults.
#pragma once

#include <string>
#include <vector>

#include "options/commands.h"
#include "options/configuration_file.h"
#include "options/options.h"

namespace trainer {

struct CommandLine {
  Command command = Command::Train;
  AllOptions options;                 // valid when there are no problems
  std::vector<std::string> problems;  // every one that was found, of flags, file and ranges, a sentence each
  Rows asked_for = {};                // what was given on the command line, or in the file that --config names
  std::string answer;  // not empty where help or the version was asked for, and nothing else is to be done

  bool asks(const char* flag) const { return asked_for.contains(row_of(flag)); }
};

// The program that asks: fsdp-plan also knows models that cannot be trained here.
enum class Asking { Trainer, Planner };

// Reads `arguments`, without the program's name. The first may be a command; without one it is `train`. Help is in
// lines of at most `help_width` columns.
CommandLine parse_command_line(std::vector<std::string> arguments, int help_width = 80,
                               Asking asking = Asking::Trainer);

}  // namespace trainer
