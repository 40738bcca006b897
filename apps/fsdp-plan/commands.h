// The commands of fsdp-plan: the first word of its command line. A new one is a row of the table.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fsdp-plan/model_plan.h"

namespace planner {

// An option of a command.
struct Switch {
  std::string flag;        // "--json"
  std::string help;        // sentences
  std::string value = {};  // "FILE"; empty: it takes none
};

// The words of a command line after the command.
struct Given {
  // Values by flag; an option without a value has an empty one.
  std::map<std::string, std::string> switches = {};
  std::string word = {};                   // the argument, if the command takes one
  bool asks_for_help = false;              // -h or --help, wherever it stands
  std::vector<std::string> problems = {};  // every one, a sentence each

  bool has(const std::string& flag) const { return switches.contains(flag); }
};

struct Command {
  std::string word = {};                 // "textbook"
  std::string summary = {};              // a sentence or two
  std::string examples = {};             // command lines, each in a line and indented
  std::vector<Switch> switches = {};     // of this command alone
  std::string argument = {};             // "SHELL"; empty: it takes none
  std::vector<std::string> values = {};  // of the argument
  // For a command whose words are those of fsdp-plan MODEL. Its problems come with the result.
  ModelPlan (*plan)(const std::vector<std::string>& words, size_t width) = nullptr;
  // The result, in lines of `width` columns. `given` has no problems. Throws fsdp::Error where there is none.
  std::string (*text)(const Given& given, size_t width) = nullptr;
};

// The help of the command's argument.
std::string argument_help(const Command& command);

std::span<const Command> commands();
std::vector<std::string> command_words();

// Reads the words after the command.
Given read_words(const Command& command, const std::vector<std::string>& words);

}  // namespace planner
