// What a shell may offer where the value of an option is typed.
#pragma once

#include <string>
#include <vector>

#include "options/option_table.h"

namespace trainer {

enum class Paths { None, Files, Folders };

struct ValueHints {
  std::vector<std::string> words = {};
  Paths paths = Paths::None;  // where Files, folders too
};

// None for a switch, and for numbers and texts.
ValueHints hints_of(const Row& row);

// The row of the words that are no option's; nullptr: the command takes none.
const Row* row_of_words(Command command);

}  // namespace trainer
