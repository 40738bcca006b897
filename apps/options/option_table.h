// The options as data, one row each: the command line, the configuration file, the help, what is saved with a run and
// the tests all read this table. To add an option: a member in options.h, in its command's struct, and a row in an
// option_rows_*.cpp.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "options/commands.h"
#include "options/options.h"

namespace trainer {

// Where the value goes. A bool is a switch, given without a value; a vector takes several.
using Target = std::variant<bool AllOptions::*, int64_t AllOptions::*, double AllOptions::*, std::string AllOptions::*,
                            std::optional<int64_t> AllOptions::*, std::optional<double> AllOptions::*,
                            std::optional<StepRange> AllOptions::*, std::vector<std::string> AllOptions::*,
                            std::string ModelOptions::*, std::optional<bool> ModelOptions::*,
                            std::optional<int64_t> ModelOptions::*, std::optional<double> ModelOptions::*>;

// The values that an option may have.
struct Anything {
  bool may_be_empty = false;
};
struct WholeNumbers {
  int64_t lowest, highest;  // both allowed
};
struct Numbers {
  double lowest, highest;  // finite values between them
  bool with_lowest, with_highest;
  const char* expected;  // "a number above 0"
};
using Words = std::vector<const char*>;
struct Form {
  bool (*holds)(const std::string& value);
  const char* expected;  // "bytes, FILE.model or train:VOCABULARY"
};
using Check = std::variant<Anything, WholeNumbers, Numbers, Words, Form>;

struct Row {
  const char* flag;  // "--lr"; without dashes: a name for words that are no option's (commands.h)
  Target target;
  Check check;
  unsigned commands;          // that know it
  const char* unit;           // stands for the value in the help: "STEPS", "FILE"; of a number without unit "N" or "X"
  const char* shown_default;  // for the help, in place of the value; "": the value itself
  const char* description;    // sentences
  const char* title = "";     // of its group in the help
  const char* section = "";   // of the file; "": it is on the command line alone

  bool is_for(Command command) const { return (commands & in(command)) != 0; }
  bool is_switch() const { return std::holds_alternative<bool AllOptions::*>(target); }
  bool takes_words() const { return flag[0] != '-'; }
  bool takes_several() const { return std::holds_alternative<std::vector<std::string> AllOptions::*>(target); }
  bool in_file() const { return *section != '\0'; }
  std::string key() const;   // within its section: the flag without dashes before it, and _ for those in it
  std::string path() const;  // "training.lr"
};

// In the order of the help, groups together.
const std::vector<Row>& option_rows();

// The row of a flag; none: nullptr.
const Row* row_of(const std::string& flag);

// Two options for one setting. If both are given, one in the file and one on the command line, `leader` wins; only it
// is saved.
struct Rivals {
  const char* follower;
  const char* leader;
  const char* why;  // not both; empty: the steps, which may be given together with the epochs
};
const std::vector<Rivals>& rival_options();

namespace reach {
template <typename T>
T& member(AllOptions& options, T AllOptions::*target) {
  return options.*target;
}
template <typename T>
const T& member(const AllOptions& options, T AllOptions::*target) {
  return options.*target;
}
template <typename T>
T& member(AllOptions& options, T ModelOptions::*target) {
  return options.model_options.*target;
}
template <typename T>
const T& member(const AllOptions& options, T ModelOptions::*target) {
  return options.model_options.*target;
}
}  // namespace reach

// `visitor` applied to what the row is about, whatever its type.
template <typename AnyOptions, typename Visitor>
auto visit_target(const Row& row, AnyOptions& options, Visitor visitor) {
  return std::visit([&](auto target) { return visitor(reach::member(options, target)); }, row.target);
}

}  // namespace trainer
