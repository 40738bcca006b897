#include "fsdp-convert/manual_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fsdp-convert/description.h"
#include "manual/completion.h"
#include "manual/man_page.h"
#include "options/options.h"

namespace converter {

namespace {

void refuse_from(size_t place, const char* why, const std::vector<std::string>& arguments, Arguments& result) {
  for (size_t i = place; i < arguments.size(); ++i) {
    result.problems.push_back(fmt::format("'{}' is one word too many: {}.", arguments[i], why));
  }
}

void answer_completion(const std::vector<std::string>& arguments, Arguments& result) {
  if (arguments.size() == 1) {
    result.problems.emplace_back("no shell is named: give bash, zsh or fish.");
    return;
  }
  const std::string& shell = arguments[1];
  const auto& known = trainer::kShells;
  if (std::find(known.begin(), known.end(), shell) == known.end()) {
    result.problems.push_back(fmt::format("SHELL is '{}'; it must be one of {}.", shell, fmt::join(known, ", ")));
  }
  refuse_from(2, "SHELL is given already", arguments, result);
  if (result.problems.empty()) result.answer = trainer::completion_script(shell, program());
}

}  // namespace

bool asks_for_manual(const std::vector<std::string>& arguments) {
  return !arguments.empty() && (arguments[0] == kManWord || arguments[0] == kCompletionWord);
}

void answer_manual(const std::vector<std::string>& arguments, Arguments& result) {
  if (arguments[0] == kCompletionWord) {
    answer_completion(arguments, result);
    return;
  }
  refuse_from(1, "man takes none", arguments, result);
  if (result.problems.empty()) result.answer = trainer::man_page(program());
}

}  // namespace converter
