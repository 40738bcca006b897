#include "console/bar.h"

#include <algorithm>

namespace trainer {

std::string bar(double done, size_t columns, const Terminal& terminal) {
  const auto filled = static_cast<size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(columns));
  std::string text = terminal.colour ? "\033[32m" : "";
  for (size_t i = 0; i < filled; ++i) text += terminal.utf8 ? "█" : "#";
  if (terminal.colour) text += "\033[90m";
  for (size_t i = filled; i < columns; ++i) text += terminal.utf8 ? "░" : ".";
  return text + (terminal.colour ? "\033[0m" : "");
}

}  // namespace trainer
