#include "planning/plan_text.h"

#include <fmt/format.h>

#include <array>

#include "console/paragraph.h"
#include "console/units.h"

namespace trainer {

std::string plan_line(const std::string& name, const std::string& text) {
  constexpr size_t kIndent = 22, kColumns = 80;
  return paragraph(name, text, kIndent, kColumns);
}

std::string plan_bytes(double count) {
  constexpr double kMost = 9.1e18;
  return count < kMost ? short_bytes(static_cast<size_t>(count)) : "> 9 EB";
}

std::string range_text(int64_t first, int64_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

std::string operations(double count) {
  constexpr std::array<const char*, 9> kPrefixes = {"", "k", "M", "G", "T", "P", "E", "Z", "Y"};
  size_t power = 0;
  while (count >= 1000 && power + 1 < kPrefixes.size()) count /= 1000, ++power;
  return fmt::format("{:.3g} {}FLOP", count, kPrefixes[power]);
}

}  // namespace trainer
