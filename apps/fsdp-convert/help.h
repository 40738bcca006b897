// The options of fsdp-convert, and its help.
#pragma once

#include <span>
#include <string>

#include "formats/format.h"

namespace converter {

struct Flag {
  const char* name;
  const char* value;  // its placeholder; empty: it takes none
  const char* help;
};
std::span<const Flag> flags();

// Command lines, each in a line and indented.
inline constexpr const char* kExamples =
    "  fsdp-convert run/step-300 model.pt\n"
    "  fsdp-convert run/step-300 model --to hf --dtype bf16\n"
    "  fsdp-convert dcp/step-300 step-300 --to fsdp\n"
    "  fsdp-convert --list model.pt\n";

// "a Hugging Face folder, a model alone."
std::string format_text(const fsdp::formats::FormatEntry& entry);

// In lines of `width` columns.
std::string help_text(int width);

}  // namespace converter
