#include "options/option_table.h"

#include <algorithm>

namespace trainer {

std::optional<Command> command_named(std::string_view word) {
  for (const CommandEntry& entry : kCommands) {
    if (word == entry.word) return entry.command;
  }
  return std::nullopt;
}

std::string Row::key() const {
  std::string key = flag;
  key.erase(0, key.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string Row::path() const { return std::string(section) + "." + key(); }

const Row* row_of(const std::string& flag) {
  for (const Row& row : option_rows()) {
    if (flag == row.flag) return &row;
  }
  return nullptr;
}

}  // namespace trainer
