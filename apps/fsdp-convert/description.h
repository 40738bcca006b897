// The description of fsdp-convert, for its manual page and the completions of its command line.
#pragma once

#include "manual/program.h"

namespace converter {

// The first words that ask for them.
inline constexpr const char* kManWord = "man";
inline constexpr const char* kCompletionWord = "completion";

const trainer::Program& program();

}  // namespace converter
