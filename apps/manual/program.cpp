#include "manual/program.h"

#include <algorithm>

namespace trainer {

bool ProgramOption::is_for(const ProgramCommand& command) const {
  return std::find(commands.begin(), commands.end(), command.word) != commands.end();
}

std::vector<std::string> Program::typed_words() const {
  std::vector<std::string> typed;
  for (const ProgramCommand& command : commands) {
    if (command.typing != CommandWord::NeverTyped) typed.push_back(command.word);
  }
  return typed;
}

Paths Program::paths_at_first() const {
  const std::vector<ProgramWord>& words = default_command().words;
  return words.empty() ? Paths::None : words.front().hints.paths;
}

}  // namespace trainer
