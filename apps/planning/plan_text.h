// The form of a plan's lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainer {

// An indented line: `name`, and beside it the text, in as many lines as 80 columns ask for.
std::string plan_line(const std::string& name, const std::string& text);

// For all ranks together they may not fit into 64 bits.
std::string plan_bytes(double count);

// "3", "0-3"
std::string range_text(int64_t first, int64_t last);

// "3.12 TFLOP"
std::string operations(double count);

}  // namespace trainer
