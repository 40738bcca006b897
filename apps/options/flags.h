// The flags of a command line, taken apart.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "options/configuration_file.h"
#include "options/option_table.h"

namespace trainer {

enum class AskedHelp { None, Short, Full };

struct FlagsAnswer {
  AskedHelp help = AskedHelp::None;
  std::string version;                // not empty when it was asked for
  std::vector<std::string> problems;  // what keeps the flags from being read at all
};

// CLI11 takes the arguments apart; values are read and checked here, so that every wrong one is found: CLI11 stops at
// the first. A flag may have _ where its name has -.
class Flags {
 public:
  explicit Flags(Command command);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  FlagsAnswer parse(std::vector<std::string> arguments);
  // The value that an option was given, as it stands there; empty: none.
  std::string text_of(const std::string& flag) const;
  // Sets what was given, appends what is wrong with it, and returns which options were given, rightly or not.
  Rows apply(AllOptions& options, std::vector<std::string>& problems) const;

 private:
  // The remaining arguments, without the values of unknown options: naming both would count one mistake twice.
  std::vector<std::string> remaining() const;
  void read_words(Rows& given, AllOptions& options, std::vector<std::string>& problems) const;
  // The paths of options that take one and were given more, such as a shell makes of *.txt.
  std::map<std::string, std::vector<std::string>> several_paths() const;
  std::string repeated(const Row& row, const CLI::Option& option) const;
  std::string unknown(const std::string& argument) const;
  std::string meant_by(const std::string& flag) const;

  Command command_;
  std::vector<std::string> arguments_;  // as they were given
  CLI::App app_;
  CLI::Option* short_help_ = nullptr;
  std::vector<std::pair<const Row*, CLI::Option*>> options_;
  const Row* words_ = nullptr;  // for what is no option
};

}  // namespace trainer
