// A bar that shows how much is done.
#pragma once

#include <cstddef>
#include <string>

namespace trainer {

// `columns` wide; `done` from 0 to 1, what lies outside counts as the nearer one.
std::string bar(double done, size_t columns, bool colour);

}  // namespace trainer
