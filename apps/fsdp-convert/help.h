// The options of fsdp-convert, and its help.
#pragma once

#include <span>
#include <string>

namespace converter {

struct Flag {
  const char* name;
  const char* value;  // its placeholder; empty: it takes none
  const char* help;
};
std::span<const Flag> flags();

// In lines of `width` columns.
std::string help_text(int width);

}  // namespace converter
