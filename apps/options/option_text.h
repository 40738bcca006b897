// An option in words, as the help and the manual page have it.
#pragma once

#include <string>

#include "options/option_table.h"

namespace trainer {

// The value's, by its type and unit: "STEPS", "A..B"; empty for a switch and for words that are no option's.
std::string placeholder(const Row& row);

// Its description, the values that it may have, and its default in brackets.
std::string described(const Row& row);

}  // namespace trainer
