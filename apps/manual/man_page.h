// The manual page of a program, made from its description.
#pragma once

#include <string>

#include "manual/program.h"

namespace trainer {

// In roff, for man(1).
std::string man_page(const Program& program);

}  // namespace trainer
