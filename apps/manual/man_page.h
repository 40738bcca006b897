// The manual page of fsdp-train, made from the tables of commands and options.
#pragma once

#include <string>

namespace trainer {

// In roff, for man(1).
std::string man_page();

}  // namespace trainer
