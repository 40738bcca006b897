// A bar that shows how much is done.
#pragma once

#include <cstddef>
#include <string>

#include "console/terminal.h"

namespace trainer {

// `columns` wide, in the terminal's colours and characters; `done` from 0 to 1, what lies outside counts as the nearer
// one.
std::string bar(double done, size_t columns, const Terminal& terminal);

}  // namespace trainer
