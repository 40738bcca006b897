// How far `fsdp-train prepare` is, for terminals.
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

// One line of at most `width` - 1 columns, so that no terminal wraps it: percent, a bar, and what there is room for of
// bytes, speed and time left. total > 0.
std::string prepare_bar(int64_t done, int64_t total, double seconds, int width, bool colour);

}  // namespace trainer
