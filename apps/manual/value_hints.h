// For a shell to offer where the value of an option of fsdp-train is typed.
#pragma once

#include "manual/program.h"
#include "options/option_table.h"

namespace trainer {

// None for a switch, and for numbers and texts.
ValueHints hints_of(const Row& row);

// The row of the words that are no option's; nullptr: the command takes none.
const Row* row_of_words(Command command);

}  // namespace trainer
